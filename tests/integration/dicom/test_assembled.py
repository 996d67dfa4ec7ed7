"""From C-STORE to a frozen revision: what is chosen of real studies."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest

from pipeline.dicom.phantom_ledger import FilePhantomLedger
from pipeline.dicom.send import SendResult, send
from pipeline.evidence import Patience
from pipeline.flow.assemble import Assembling, assemble
from pipeline.model import Lease, Step
from tests.builders import Bell
from tests.integration.dicom.conftest import Site, eventually

AT_ONCE = Patience(0.0, 0.0, 0.0, 3600.0)


def assembled(site: Site, ledger: Path) -> tuple[int, list[Step]]:
    """Assemble what is quiet once every association is closed; returns studies handled and rings."""
    eventually(lambda: site.rows("SELECT count(*) FROM associations WHERE closed_at IS NULL") == [(0,)])
    bell = Bell()
    return assemble(Assembling(site.store, FilePhantomLedger(ledger), bell, AT_ONCE, 8), 10, Lease("test", 60.0)), bell.rung


def test_the_real_chest_ct_becomes_one_ready_job_also_when_it_comes_twice(site: Site, test_data: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert send([test_data / "chest_lidc_0314"], "127.0.0.1", site.port, "CTREPORT").failed == []
        assembled(site, tmp_path / "phantoms")
    assert site.rows("SELECT state, revision, jsonb_array_length(files), region, is_phantom FROM jobs") == [("ready", 1, 28, "chest", False)]


@pytest.mark.parametrize(
    ("folder", "part"),
    [("not_for_reading", "定位像"), ("dose_reports", "剂量报告"), ("bad_geometry/not_a_volume", "仅 1 层"), ("bad_geometry/gap", "仅 4 层")],
)
def test_what_is_no_chest_volume_ends_as_unsupported_with_a_sentence(site: Site, test_data: Path, tmp_path: Path, folder: str, part: str) -> None:
    assert send([test_data / folder], "127.0.0.1", site.port, "CTREPORT").failed == []
    handled, rung = assembled(site, tmp_path / "phantoms")
    states = site.rows("SELECT state, reason, series_refused::text FROM jobs")
    assert len(states) == handled > 0
    assert {state for state, _, _ in states} == {"unsupported"}
    assert all(reason for _, reason, _ in states)
    assert any(part in refused for _, _, refused in states)
    assert rung == []


def test_eight_associations_at_once_lose_nothing(site: Site, test_data: Path) -> None:
    results: list[SendResult] = []
    files = sorted((test_data / "chest_lidc_0314").glob("*.dcm"))

    def work(start: int) -> None:
        results.append(send(files[start::8] + files[:2], "127.0.0.1", site.port, "CTREPORT"))

    threads = [Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.failed for r in results] == [[]] * 8
    assert site.rows("SELECT count(*), count(*) FILTER (WHERE is_first) FROM instances") == [(28, 28)]
    assert site.verified().clean
