"""A site's rules of which series is read: versions, refusals, and what the next assembly makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.choosing import ChoiceRule, RuleEffect
from pipeline.errors import BadInput
from pipeline.evidence import Patience
from pipeline.export.markdown import series_markdown
from pipeline.flow.assemble import Assembling, assemble
from pipeline.model import Header
from pipeline.store import operator, queries
from pipeline.store.series_rules import current_series, set_series
from pipeline.store.session import PgStore
from tests.builders import Bell
from tests.integration.flow.test_assembling import NoPhantoms
from tests.integration.store.rows import ME, count, header, one, send
from tests.integration.store.test_evidence import aged

PATIENCE = Patience(quiet_s=30.0, settle_s=3.0, patience_s=300.0, force_after_s=3600.0)
PREFER_LUNG: dict[str, object] = {"effect": "prefer", "series": "lung", "reason": "本院以肺窗薄层为准"}


def put(store: PgStore, *rows: dict[str, object], version: int = 1) -> None:
    with store.begin() as work:
        set_series(work.session, rows, version)


def current(store: PgStore) -> tuple[ChoiceRule, ...]:
    with store.begin() as work:
        return current_series(work.session)


def slices(number: int, description: str, kernel: str) -> list[Header]:
    """One axial series."""
    found = [header(index) for index in range(1, 13)]
    return [
        replace(
            one,
            series_description=description,
            kernel=kernel,
            series_number=number,
            instance=replace(
                one.instance,
                series_uid=f"1.2.3.{number}",
                sop_uid=f"{one.instance.sop_uid}.{number}",
                sha256=f"{number:02d}{one.instance.sha256[2:]}",
            ),
        )
        for one in found
    ]


def assembled(store: PgStore) -> dict[str, Any]:
    aged(store, 31.0)
    assemble(Assembling(store, NoPhantoms(), Bell(), PATIENCE, 8), 10, ME)
    return one(store, "SELECT revision, series_chosen, series_refused, series_scores FROM jobs ORDER BY revision DESC LIMIT 1")


def test_rules_are_read_back_in_their_order_and_a_new_version_retires_the_old_one(store: PgStore) -> None:
    put(store, PREFER_LUNG, {"effect": "points", "station": "^CT2$", "points": -20, "reason": "旧机"})
    assert current(store) == (
        ChoiceRule(RuleEffect.PREFER, "本院以肺窗薄层为准", series="lung", version=1),
        ChoiceRule(RuleEffect.POINTS, "旧机", station="^CT2$", points=-20, version=1),
    )
    put(store, {"effect": "refuse", "study": "research", "reason": "科研扫描"}, version=2)
    assert [rule.version for rule in current(store)] == [2]
    put(store, version=3)
    assert current(store) == ()
    assert count(store, "series_rules") == 3
    assert one(store, "SELECT string_agg(detail->>'rows', ' ' ORDER BY id) AS n FROM audit WHERE action = 'rules'")["n"] == "2 1 0"


def test_a_row_that_cannot_be_meant_leaves_the_rules_in_force_as_they_are(store: PgStore) -> None:
    put(store, PREFER_LUNG)
    with pytest.raises(BadInput, match="rule 2 needs effect"):
        put(store, PREFER_LUNG, {"effect": "love", "series": "a", "reason": "x"}, version=2)
    assert [rule.version for rule in current(store)] == [1]


def test_a_rule_changed_in_the_database_takes_effect_on_the_next_assembly(store: PgStore) -> None:
    send(store, *slices(2, "Soft", "B31f"), *slices(3, "Lung", "B70f"))
    first = assembled(store)
    assert (first["series_chosen"], [uid for uid, _ in first["series_refused"]]) == (["1.2.3.2"], ["1.2.3.3"])
    assert "卷积核" in first["series_refused"][0][1]
    put(store, PREFER_LUNG)
    operator.rerun(store, "1.2.3")
    second = assembled(store)
    assert (second["revision"], second["series_chosen"]) == (2, ["1.2.3.3"])
    assert second["series_scores"][0]["parts"][-1] == {"rule": "site", "points": 1000, "reason": "站点规则（第 1 版）：本院以肺窗薄层为准"}
    with store.begin() as work:  # as an engineer would by hand
        work.session.execute(text("UPDATE series_rules SET effect = 'refuse', reason = '不读肺窗'"))
    operator.rerun(store, "1.2.3")
    third = assembled(store)
    assert (third["series_chosen"], third["series_refused"]) == (["1.2.3.2"], [["1.2.3.3", "站点规则（第 1 版）：不读肺窗"]])


def test_the_trail_says_which_series_won_and_by_which_points(store: PgStore) -> None:
    send(store, *slices(2, "Soft", "B31f"), *slices(3, "Lung", "B70f"))
    job = assembled(store)
    detail = one(store, "SELECT detail FROM audit WHERE action = 'assemble'")["detail"]
    assert (detail["series"], detail["score"]) == ("2", str(job["series_scores"][0]["score"]))
    assert "kernel:15" in detail["parts"].split()
    assert [event["action"] for event in queries.timeline(store, "1.2.3")] == ["assemble"]


def test_show_and_why_say_which_series_is_read_and_what_each_rule_said(store: PgStore) -> None:
    send(store, *slices(2, "Soft", "B31f"), *slices(3, "Lung", "B70f"))
    assembled(store)
    series = queries.series_read(store, "1.2.3")
    assert series is not None
    assert (series["chosen"], [one["uid"] for one in series["refused"]]) == (["1.2.3.2"], ["1.2.3.3"])
    first, second = series["scores"]
    assert (first["uid"], first["number"], first["description"], first["images"], first["refusal"]) == ("1.2.3.2", 2, "Soft", 12, "")
    assert first["score"] == sum(part["points"] for part in first["parts"]) > second["score"]
    told = series_markdown(series)
    assert f"- **采用** 第 2 序列「Soft」，12 幅，{first['score']} 分：轴位 +10，" in told
    assert "- 未采用 第 3 序列「Lung」：已选用更合适的图像（" in told
    assert "1.2.3" not in told


def test_before_it_was_assembled_nothing_is_read(store: PgStore) -> None:
    send(store, header(1))
    assert queries.series_read(store, "1.2.3") is None


def test_an_unsupported_study_says_why_for_each_series(store: PgStore) -> None:
    send(store, *(replace(one, body_part="HEAD", study_description="Brain") for one in slices(2, "Head", "B31f")))
    assembled(store)
    series = queries.series_read(store, "1.2.3")
    assert series is not None
    (only,) = series["scores"]
    assert (only["score"], only["refusal"]) == (0, "检查部位为头部，这里只读胸部 CT")
    assert only["parts"] == [{"rule": "eligible", "points": 0, "reason": "检查部位为头部，这里只读胸部 CT"}]
