from typing import Any

import pytest

from pipeline.evaluation.receive_targets import TARGETS, verdicts


def a_row(**changed: Any) -> dict[str, Any]:
    row = {"what": "ctreport", "object": "small", "associations": 1, "sender_tcp_nodelay": True, "peak_pss_mb": 150.0}
    return row | {"ratio_to_orthanc": None, "ratio_to_storescp": None, "ratio_to_fork": None} | changed


@pytest.mark.parametrize(("ratio", "must", "goal"), [(0.99, False, False), (1.0, True, False), (1.5, True, True)])
def test_one_association_must_be_as_fast_as_orthanc(ratio: float, must: bool, goal: bool) -> None:
    reached = {one["kind"]: one["reached"] for one in verdicts([a_row(ratio_to_orthanc=ratio)])}
    assert reached == {"must": must, "goal": goal}


@pytest.mark.parametrize(("peak_pss_mb", "reached"), [(299.0, True), (301.0, False)])
def test_a_gigabyte_costs_less_than_300_megabytes(peak_pss_mb: float, reached: bool) -> None:
    (one,) = verdicts([a_row(object="1GB", peak_pss_mb=peak_pss_mb)])
    assert (one["figure"], one["asked"], one["reached"]) == ("peak_pss_mb", "≤ 300", reached)


def test_default_senders_are_measured_against_both_peers() -> None:
    row = a_row(sender_tcp_nodelay=False, ratio_to_orthanc=6.0, ratio_to_storescp=4.0)
    assert [(one["figure"], one["reached"]) for one in verdicts([row])] == [("ratio_to_orthanc", True), ("ratio_to_storescp", False)]


def test_the_fast_path_has_its_own_verdicts_and_other_variants_have_none() -> None:
    rows = [a_row(what=what, ratio_to_orthanc=2.0) for what in ("ctreport", "ctreport fast", "ctreport no fsync", "orthanc")]
    assert {one["what"] for one in verdicts(rows)} == {"ctreport", "ctreport fast"}


def test_what_was_not_measured_has_no_verdict() -> None:
    assert verdicts([a_row()]) == []
    assert verdicts([]) == []


def test_every_must_of_the_issue_is_asked() -> None:
    musts = {(one.object, one.associations, one.sender_tcp_nodelay, one.figure, one.asked) for one in TARGETS if one.kind == "must"}
    assert musts == {
        ("small", 1, True, "ratio_to_orthanc", 1.0),
        ("small", 4, True, "ratio_to_orthanc", 0.6),
        ("small", 8, True, "ratio_to_orthanc", 0.6),
        ("small", 1, False, "ratio_to_orthanc", 5.0),
        ("small", 1, False, "ratio_to_storescp", 5.0),
        ("1GB", 1, True, "peak_pss_mb", 300.0),
    }
