"""Incremental work on a real database: what a change does not concern stays, what a reader has touched is never changed, the difference is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import text

from pipeline.drafting.fake import FakeGenerator
from pipeline.drafting.parse import parse
from pipeline.drafting.schema import dumps
from pipeline.drafting.sections import SectionDrafter
from pipeline.errors import BadInput, NotAllowed, NotFound
from pipeline.flow.draft import Drafting, draft
from pipeline.flow.renew import Renewing, correct, recheck
from pipeline.flow.review import review
from pipeline.model import Candidate, Features, ReportState, Severity, Side, Step
from pipeline.ports import Archive, Encoder
from pipeline.renewing import Order
from pipeline.rules.seed import seed_dose_rules, seed_lexicon, seed_terms
from pipeline.store import operator, queries
from pipeline.store.lexicon import set_terms
from pipeline.store.seed import seed_rules
from pipeline.store.session import PgStore
from pipeline.store.versions import changed
from tests.builders import Bell, candidate
from tests.integration.flow.test_drafting import RETRY, Clock
from tests.integration.store.rows import ME, claim, freeze, header, one, send

UID = "1.2.3"
DESCRIPTION, IMPRESSION, ADVICE, FINDINGS = "描述", "诊断意见", "建议", "检查所见"


class Shelf:
    """An archive and an encoder that hold features by their path."""

    def __init__(self) -> None:
        self.candidates: dict[str, tuple[Candidate, ...]] = {}

    def path(self, relative: str) -> Any:
        return relative

    def load_features(self, path: Any) -> Features:
        if str(path) not in self.candidates:
            raise BadInput("these features are gone")
        return Features(np.zeros((24, 128), np.float32), "compact", "1", "p", self.candidates[str(path)])


class Site:
    """One study, and the steps that work on it."""

    def __init__(self, store: PgStore) -> None:
        self.store, self.shelf, self.bell = store, Shelf(), Bell()
        self.generator = FakeGenerator()

    def drafting(self, mode: str = "sections") -> Drafting:
        drafter = SectionDrafter(self.generator, mode=mode)  # type: ignore[arg-type]  # one of two words
        shelf = self.shelf
        ports = (cast(Archive, shelf), cast(Encoder, shelf), drafter, parse, self.bell, Clock(), RETRY)
        return Drafting(self.store, *ports, "demo", "radiology")

    def arrive(self, number: int = 1, path: str = "a", candidates: Sequence[Candidate] = (), mode: str = "sections") -> list[str]:
        """One more image, or a change that is there already: frozen, encoded, drafted. Returns the sections that were asked for."""
        if number:
            send(self.store, *(header(n) for n in range(1, number + 1)))
        assert freeze(self.store) is not None
        return self.encode_and_draft(path, candidates, mode)

    def encode_and_draft(self, path: str, candidates: Sequence[Candidate] = (), mode: str = "sections") -> list[str]:
        self.shelf.candidates[path] = tuple(candidates) or (candidate(side=Side.RIGHT),)
        (job,) = claim(self.store)
        with self.store.begin() as work:
            work.studies.encoded(job, path, "compact", "1", ME)
        self.generator.asked.clear()
        draft(self.drafting(mode), 4, ME)
        assert one(self.store, "SELECT state, reason FROM jobs ORDER BY revision DESC LIMIT 1") == {"state": "drafted", "reason": None}
        return [ask.section for ask in self.generator.asked]

    def correct(self, indication: str) -> tuple[tuple[str, ...], bool]:
        return correct(self.store, UID, Order(indication), "dr-order")

    def shown(self) -> dict[str, Any]:
        return queries.show(self.store, UID)

    def changes(self) -> Mapping[str, tuple[str, str, bool]]:
        return {row["section"]: (row["cause"], row["after"], row["applied"]) for row in self.shown()["changes"]}

    def says(self, **texts: str) -> None:
        """The next answers of the model, in this order."""
        self.generator._texts = [dumps({section: text}) for section, text in texts.items()]

    def rules(self, terms: Mapping[str, str]) -> None:
        with self.store.begin() as work:
            changed(work.session, "terms", "dr-rules", "test", lambda now, version: set_terms(now, terms, version), len(terms))

    def recheck(self) -> int:
        return recheck(Renewing(self.store, cast(Archive, self.shelf), cast(Encoder, self.shelf), self.bell), 10)

    def audited(self, action: str) -> int:
        return int(one(self.store, f"SELECT count(*) AS n FROM audit WHERE action = '{action}'")["n"])


@pytest.fixture
def site(store: PgStore, url: str) -> Site:
    seed_rules(url, seed_terms(), seed_dose_rules(), lexicon=seed_lexicon())
    made = Site(store)
    assert made.arrive() == [FINDINGS, DESCRIPTION, IMPRESSION, ADVICE]
    return made


def test_a_corrected_order_writes_only_what_answers_it_and_shows_what_is_new(site: Site) -> None:
    before = site.shown()["draft"]["sections"]
    assert site.correct("肺癌术后复查") == (("indication",), True)
    site.says(诊断意见="右肺上叶磨玻璃结节，术后改变待排。", 建议="建议三个月后复查。")
    assert site.arrive(0) == [IMPRESSION, ADVICE]
    shown = site.shown()
    assert (shown["revision"], shown["cause"]) == (2, "order")
    assert shown["draft"]["sections"][FINDINGS] == before[FINDINGS]
    assert site.changes() == {
        IMPRESSION: ("order", "右肺上叶磨玻璃结节，术后改变待排。", True),
        ADVICE: ("order", "建议三个月后复查。", True),
    }
    assert (site.audited("found_kept"), site.audited("sections_kept"), site.audited("corrected")) == (1, 1, 1)
    assert [ask.prompt for ask in site.generator.asked if before[FINDINGS] in ask.prompt and "肺癌术后复查" in ask.prompt]


def test_what_the_order_says_already_changes_nothing(site: Site) -> None:
    assert site.correct("咳嗽") == ((), False)
    assert one(site.store, "SELECT state FROM studies")["state"] == "complete"


def test_the_trail_of_a_correction_holds_nothing_of_the_patient(site: Site) -> None:
    site.correct("肺癌术后复查")
    assert one(site.store, "SELECT count(*) AS n FROM audit WHERE detail::text LIKE '%肺癌%'")["n"] == 0


def test_an_order_that_is_corrected_before_the_text_is_written_needs_no_revision(store: PgStore) -> None:
    site = Site(store)
    send(store, header())
    assert site.correct("胸痛") == (("indication",), False)
    assert site.arrive(0) == [FINDINGS, DESCRIPTION, IMPRESSION, ADVICE]
    assert "胸痛" in site.generator.asked[0].prompt
    assert site.shown()["revision"] == 1


def test_a_correction_while_late_images_arrive_is_not_forgotten(site: Site) -> None:
    send(site.store, header(2))
    assert site.correct("肺癌术后复查") == (("indication",), True)
    assert site.arrive(0) == [IMPRESSION, ADVICE]


def test_a_late_image_that_shows_the_same_leaves_every_word(site: Site) -> None:
    before = site.shown()["draft"]["sections"]
    assert site.arrive(2, "b") == [FINDINGS]
    shown = site.shown()
    assert (shown["revision"], shown["cause"], shown["changes"]) == (2, "images", [])
    assert shown["draft"]["sections"] == before
    assert shown["draft"]["generation"]["tokens"] == 0


def test_a_late_image_that_shows_more_writes_every_text_anew(site: Site) -> None:
    more = (candidate(side=Side.RIGHT), candidate(index=2, side=Side.LEFT))
    assert site.arrive(2, "b", more) == [FINDINGS, DESCRIPTION, IMPRESSION, ADVICE]
    assert set(site.changes()) == {FINDINGS, IMPRESSION}
    assert {cause for cause, _, _ in site.changes().values()} == {"images"}


def test_a_report_written_in_one_call_keeps_its_words_too(site: Site) -> None:
    assert site.arrive(2, "b", mode="whole") == [""]
    assert site.shown()["changes"] == []


def test_an_operator_who_runs_a_study_again_gets_all_of_it_anew_also_after_a_late_image(site: Site) -> None:
    operator.rerun(site.store, UID)
    assert freeze(site.store) is not None
    send(site.store, header(2))  # before it was written
    assert site.arrive(0, "b") == [FINDINGS, DESCRIPTION, IMPRESSION, ADVICE]
    assert site.shown()["cause"] == "rerun"


def test_another_model_keeps_no_word_of_the_old_one(site: Site) -> None:
    with site.store.begin() as work:
        work.session.execute(text("UPDATE drafts SET model_digest = repeat('f', 64)"))
    site.correct("肺癌术后复查")
    assert site.arrive(0) == [IMPRESSION, ADVICE, DESCRIPTION, IMPRESSION, ADVICE]
    assert site.shown()["draft"]["source"]["model_digest"] == "0" * 64


def test_what_a_reader_has_opened_stays_beside_the_new_revision(site: Site) -> None:
    first = site.shown()
    review(site.store, UUID(first["report_id"]), ReportState.REVIEWING, "dr-a")
    site.correct("肺癌术后复查")
    site.says(诊断意见="右肺上叶磨玻璃结节，术后改变待排。", 建议="建议随访。")
    site.arrive(0)
    old = one(site.store, "SELECT r.state, d.impression FROM reports r JOIN drafts d ON d.id = r.draft_id WHERE r.revision = 1")
    assert old == {"state": "reviewing", "impression": first["draft"]["sections"][IMPRESSION]}
    assert site.changes()[IMPRESSION][2]


def test_an_unknown_or_withdrawn_study_has_no_order_to_correct(site: Site) -> None:
    with pytest.raises(NotFound):
        correct(site.store, "9.9.9", Order("胸痛"), "dr-order")
    operator.withdraw(site.store, UID)
    with pytest.raises(NotAllowed, match="withdrawn"):
        site.correct("胸痛")


def test_newer_rules_look_at_an_unopened_draft_again_and_change_only_the_section_that_they_concern(site: Site) -> None:
    before = site.shown()["draft"]["sections"]
    site.rules({"建议随访": "建议复核随诊"})
    assert site.recheck() == 1
    shown = site.shown()
    assert shown["draft"]["sections"] == before | {ADVICE: before[ADVICE].replace("建议随访", "建议复核随诊")}
    assert site.changes() == {ADVICE: ("rules", shown["draft"]["sections"][ADVICE], True)}
    assert shown["draft"]["source"]["rules_version"] == 2
    assert [flag["rule"] for flag in shown["draft"]["flags"] if flag["severity"] == Severity.REPLACED] == ["term.standard"]
    assert site.recheck() == 0
    assert len(site.generator.asked) == 4  # no model was asked since


def test_newer_rules_change_no_word_of_what_a_reader_has_opened_and_say_so(site: Site) -> None:
    first = site.shown()
    review(site.store, UUID(first["report_id"]), ReportState.REVIEWING, "dr-a")
    site.rules({"建议随访": "建议复核随诊"})
    assert site.recheck() == 1
    shown = site.shown()
    assert shown["draft"]["sections"] == first["draft"]["sections"]
    assert site.changes()[ADVICE] == ("rules", first["draft"]["sections"][ADVICE].replace("建议随访", "建议复核随诊"), False)
    assert [flag["section"] for flag in shown["draft"]["flags"] if flag["rule"] == "renewal"] == [ADVICE]


def test_a_second_look_keeps_the_marks_of_what_was_replaced_and_what_somebody_answered_for(site: Site) -> None:
    site.rules({"建议随访": "建议复核随诊"})
    site.recheck()
    with site.store.begin() as work:
        work.session.execute(text("UPDATE draft_flags SET resolved_by = 'dr-a', resolved_at = now(), resolution = 'seen' WHERE rule LIKE 'term.%'"))
    site.rules({"建议随访": "建议复核随诊", "从不出现": "永不出现"})
    assert site.recheck() == 1
    (mark,) = [flag for flag in site.shown()["draft"]["flags"] if flag["rule"] == "term.standard"]
    assert (mark["original"], mark["resolved_by"]) == ("建议随访", "dr-a")
    assert len(site.changes()) == 1


def test_signed_reports_are_not_looked_at_again(site: Site) -> None:
    with site.store.begin() as work:
        work.session.execute(text("UPDATE reports SET demo_only = false, state = 'signed', signed_by = 'dr-b', signed_at = now()"))
    site.rules({"建议随访": "建议复核随诊"})
    assert site.recheck() == 0


def test_a_draft_whose_features_are_gone_is_passed_over_once_per_version(site: Site) -> None:
    site.shelf.candidates.clear()
    site.rules({"建议随访": "建议复核随诊"})
    assert (site.recheck(), site.recheck()) == (1, 0)
    assert site.audited("recheck_refused") == 1
    assert site.shown()["draft"]["source"]["rules_version"] == 1


def test_what_was_handed_out_is_handed_out_again_where_its_words_changed(site: Site) -> None:
    draft_id = UUID(site.shown()["draft_id"])
    with site.store.begin() as work:
        work.session.execute(text("UPDATE drafts SET phantom_only = false"))  # what a site's own model wrote
        work.deliveries.ask(draft_id, "markdown")
        work.session.execute(text("UPDATE deliveries SET state = 'done', done_at = now()"))
    site.bell.rung.clear()
    site.rules({"建议随访": "建议复核随诊"})
    site.recheck()
    assert site.bell.rung == [Step.DELIVER]
    assert one(site.store, "SELECT state FROM deliveries")["state"] == "waiting"
