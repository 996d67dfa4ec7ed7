"""Departments on a real database: findings frozen once per revision, each department's text from them, and never one against another."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from pipeline.drafting.departments import asked_by
from pipeline.drafting.fake import FakeDrafter, FakeGenerator
from pipeline.drafting.schema import DESCRIPTION, FINDINGS, IMPRESSION, SECTIONS, dumps
from pipeline.drafting.sections import SectionDrafter
from pipeline.errors import BadDraft, BadInput, LeaseLost, NotAllowed, ServiceUnavailable
from pipeline.export.markdown import draft_markdown
from pipeline.flow.asked import draft_asked
from pipeline.flow.draft import Drafting, draft, write_for
from pipeline.model import DraftSource, Found, Generation, Job, RequestState
from pipeline.ports import Drafter
from pipeline.rules.seed import seed_dose_rules, seed_lexicon, seed_terms
from pipeline.store import operator, queries
from pipeline.store.seed import seed_rules
from pipeline.store.session import PgStore
from tests.integration.flow.test_drafting import drafting
from tests.integration.store.rows import ME, claim, count, freeze, header, one, send

WRONG = "左肺下叶见实性结节，大小约30mm。"
FOUND = Found(
    "{}", Generation(3, 2, (1, 1), 0.1, positions=((1, 1),), sections={"检查所见": (3, 1, 1)}), DraftSource("fake", "m", "d", True, "s 1", "x")
)


def ports(store: PgStore, drafter: Drafter, **more: Any) -> Drafting:
    """The draft step, which knows the usual names of services."""
    made = drafting(store, FakeDrafter(phantom_only=drafter.phantom_only), **more)
    return replace(made, drafter=drafter, requested=asked_by)


def encoded(store: PgStore, service: str = "") -> UUID:
    """A job that is ready to be drafted, of a study that `service` asked for."""
    send(store, *(header(number, requesting_service=service) for number in (1, 2, 3)))
    job_id = freeze(store)
    assert job_id is not None
    encode(store)
    return job_id


def encode(store: PgStore) -> None:
    (job,) = claim(store)
    with store.begin() as work:
        work.studies.encoded(job, "features/1.safetensors", "compact", "1", ME)


def job_of(store: PgStore, job_id: UUID) -> Job:
    with store.begin() as work:
        (job,) = work.studies.read([job_id])
    return job


def drafts(store: PgStore) -> dict[str, str]:
    """Department → text of the findings section."""
    with store.begin() as work:
        rows = work.session.execute(text("SELECT department, findings_text FROM drafts"))
        return {row.department: row.findings_text for row in rows}


def test_the_department_that_asked_gets_a_text_of_its_own_from_the_same_findings(store: PgStore) -> None:
    encoded(store, "肿瘤内科")
    generator = FakeGenerator()
    made = ports(store, SectionDrafter(generator))
    assert (draft(made, 4, ME), draft_asked(made, 4, ME)) == (1, 1)
    assert [ask.section for ask in generator.asked] == [*SECTIONS, *SECTIONS[1:]]
    assert set(drafts(store)) == {"radiology", "oncology"}
    seen = [queries.show(store, "1.2.3", department) for department in ("radiology", "oncology")]
    assert seen[0]["draft"]["findings"] == seen[1]["draft"]["findings"] != []
    assert seen[0]["draft"]["frozen"] == seen[1]["draft"]["frozen"]
    assert [one["department"] for one in seen[0]["departments"]] == ["oncology", "radiology"]
    assert queries.show(store, "1.2.3")["department"] == "radiology"
    assert queries.show(store, "1.2.3", first="oncology")["department"] == "oncology"
    assert "（肿瘤科）" in draft_markdown(seen[1])
    assert "（肿瘤科）" not in draft_markdown(seen[0])


@pytest.mark.parametrize("service", ["", "急诊科", "放射科"])
def test_a_service_that_is_nobodys_or_the_sites_own_asks_for_nothing_more(store: PgStore, service: str) -> None:
    encoded(store, service)
    draft(ports(store, FakeDrafter()), 4, ME)
    assert (list(drafts(store)), count(store, "draft_requests")) == (["radiology"], 0)


def test_a_retry_after_a_failure_in_the_middle_writes_from_the_findings_that_were_frozen(store: PgStore) -> None:
    encoded(store)
    generator = FakeGenerator()
    made = ports(store, SectionDrafter(generator))

    def die(ask: Any, features: Any) -> Any:
        if ask.section == IMPRESSION and not died:
            died.append(ask)
            raise ServiceUnavailable("the server died")
        return answer(ask, features)

    died: list[Any] = []
    answer, generator.generate = generator.generate, die  # type: ignore[method-assign]  # dies in the middle, once
    draft(made, 1, ME)
    assert (one(store, "SELECT state FROM jobs")["state"], count(store, "drafts"), count(store, "frozen_findings")) == ("encoded", 0, 1)
    draft(made, 1, ME)
    assert (one(store, "SELECT state FROM jobs")["state"], count(store, "drafts")) == ("drafted", 1)
    assert [ask.section for ask in generator.asked].count(FINDINGS) == 1


def test_the_first_frozen_findings_stand_and_are_read_back_whole(store: PgStore) -> None:
    job = job_of(store, encoded(store))
    with store.begin() as work:
        assert work.studies.found(job.id) is None
        assert work.studies.keep_found(job, FOUND) is FOUND
    with store.begin() as work:
        assert work.studies.keep_found(job, replace(FOUND, text="other")) == work.studies.found(job.id)
        kept = work.studies.found(job.id)
    assert kept is not None
    assert (kept.text, kept.source) == (FOUND.text, FOUND.source)
    assert replace(kept.generation, lengths={}) == FOUND.generation


def test_findings_of_other_features_do_not_outlive_them(store: PgStore) -> None:
    job = job_of(store, encoded(store))
    with store.begin() as work:
        work.studies.keep_found(job, FOUND)
        work.session.execute(text("UPDATE jobs SET state = 'failed'"))
    operator.retry(store, "1.2.3")
    encode(store)
    assert count(store, "frozen_findings") == 0


def test_a_text_that_says_what_the_findings_do_not_say_is_not_kept_for_a_further_department(store: PgStore, url: str) -> None:
    seed_rules(url, seed_terms(), seed_dose_rules(), lexicon=seed_lexicon())
    job_id = encoded(store, "呼吸科")
    made = ports(store, SectionDrafter(FakeGenerator()))
    draft(made, 4, ME)
    wrong = [dumps({DESCRIPTION: WRONG}), None, None]
    wrong[1:] = [dumps({IMPRESSION: "结节。"}), dumps({"建议": "随访。"})]
    with pytest.raises(BadDraft, match=r"for pulmonology says what the frozen findings do not say, in \d places \(structure.prose") as caught:
        write_for(ports(store, SectionDrafter(FakeGenerator(texts=wrong))), job_of(store, job_id), "pulmonology")
    assert WRONG not in str(caught.value)
    assert list(drafts(store)) == ["radiology"]
    draft_asked(ports(store, SectionDrafter(FakeGenerator(texts=wrong))), 4, ME)
    request = one(store, "SELECT state, reason FROM draft_requests")
    assert request["state"] == RequestState.FAILED
    assert "frozen findings" in request["reason"]
    with pytest.raises(BadInput, match="no draft for 'pulmonology'; `ctreport draft`"):
        queries.show(store, "1.2.3", "pulmonology")


def test_a_server_is_asked_once_more_without_drafts_before_its_text_is_refused(store: PgStore, url: str) -> None:
    seed_rules(url, seed_terms(), seed_dose_rules(), lexicon=seed_lexicon())
    job_id = encoded(store)
    draft(ports(store, SectionDrafter(FakeGenerator())), 4, ME)
    generator = FakeGenerator(texts=[dumps({DESCRIPTION: WRONG})], server="fake 1")
    told: list[str] = []
    write_for(ports(store, SectionDrafter(generator)), job_of(store, job_id), "oncology", {"": 3}, lambda section, tokens: told.append(section))
    assert [ask.k for ask in generator.asked] == [3, 3, 3, 0, 0, 0]
    assert set(told) == set(SECTIONS[1:])
    assert WRONG not in drafts(store)["oncology"]
    assert queries.show(store, "1.2.3", "oncology")["draft"]["generation"]["k"] == dict.fromkeys(SECTIONS[1:], 0)


def test_in_the_sites_own_report_a_difference_is_flagged_and_the_draft_is_kept(store: PgStore, url: str) -> None:
    seed_rules(url, seed_terms(), seed_dose_rules(), lexicon=seed_lexicon())
    encoded(store)
    findings = SectionDrafter(FakeGenerator())
    made = ports(store, findings)
    shelf = made.encoder.load_features(made.archive.path("1"))
    report = json.loads(findings.draft(shelf, "", "radiology").text)
    report[FINDINGS][DESCRIPTION] = WRONG
    draft(ports(store, FakeDrafter(texts=[dumps(report)])), 4, ME)
    flags = {flag["rule"] for flag in queries.show(store, "1.2.3")["draft"]["flags"]}
    assert "structure.prose" in flags


def test_what_was_written_for_a_revision_that_is_over_is_dropped(store: PgStore) -> None:
    job_id = encoded(store)
    made = ports(store, FakeDrafter())
    draft(made, 4, ME)
    job = job_of(store, job_id)

    class Slow(FakeDrafter):
        def write(self, *arguments: Any, **more: Any) -> Any:
            send(store, header(9))  # a late image: the study is assembled anew while the text is written
            freeze(store)
            return super().write(*arguments, **more)

    with pytest.raises(LeaseLost, match="superseded"):
        write_for(ports(store, Slow()), job, "oncology")
    assert list(drafts(store)) == ["radiology"]


def test_a_department_that_asked_for_an_older_revision_gets_the_new_ones_text_too(store: PgStore) -> None:
    encoded(store, "肿瘤科")
    made = ports(store, FakeDrafter())
    for image in (8, 9):
        draft(made, 4, ME)
        draft_asked(made, 4, ME)
        send(store, header(image, requesting_service="肿瘤科"))
        freeze(store)
        encode(store)
    with store.begin() as work:
        query = "SELECT r.revision, r.department FROM reports r ORDER BY 1, 2"
        assert [tuple(row) for row in work.session.execute(text(query))] == [(1, "oncology"), (1, "radiology"), (2, "oncology"), (2, "radiology")]


def test_asked_twice_for_one_department_there_is_one_draft(store: PgStore) -> None:
    job_id = encoded(store)
    made = ports(store, FakeDrafter())
    draft(made, 4, ME)
    first, second = (write_for(made, job_of(store, job_id), "oncology") for _ in range(2))
    assert first == second
    assert count(store, "drafts") == count(store, "reports") == 2


class LastRung(FakeGenerator):
    """Says that it may write for real studies, and answers from a rung that may not."""

    def generate(self, ask: Any, features: Any) -> Any:
        made = super().generate(ask, features)
        return replace(made, source=replace(made.source, phantom_only=True))


def test_a_rung_that_knows_phantoms_only_writes_no_real_study_at_a_site_whatever_the_ladder_said(store: PgStore) -> None:
    encoded(store)
    draft(ports(store, SectionDrafter(LastRung(phantom_only=False)), mode="site"), 4, ME)
    row = one(store, "SELECT state, reason FROM jobs")
    assert (row["state"], count(store, "drafts")) == ("failed", 0)
    assert "phantom-only" in row["reason"]


def test_a_department_that_no_model_writes_for_is_refused(store: PgStore) -> None:
    job_id = encoded(store)
    made = ports(store, SectionDrafter(FakeGenerator()))
    draft(made, 4, ME)
    with pytest.raises(NotAllowed, match="radiology, oncology, pulmonology"):
        write_for(made, job_of(store, job_id), "cardiology")
