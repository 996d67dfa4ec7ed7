"""The enum terms of the report schema come from the lexicon in PostgreSQL."""

from pathlib import Path

import pytest

from pipeline.drafting.schema import SECTIONS, schema_text, section_schema
from pipeline.drafting.schemas import Schemas, packaged, schemas_of
from pipeline.errors import BadInput
from pipeline.rules.seed import seed_dose_rules, seed_lexicon, seed_terms
from pipeline.settings import settings
from pipeline.store import versions
from pipeline.store.lexicon import set_terms
from pipeline.store.seed import seed_rules
from pipeline.store.session import PgStore
from tests.integration.store import rows
from workers import wiring, wiring_drafts
from workers.commands.rule_kinds import change, kind_of

FEWEST_TERMS = 200


@pytest.fixture
def seeded(store: PgStore, url: str) -> PgStore:
    seed_rules(url, seed_terms(), seed_dose_rules(), (), seed_lexicon())
    return store


def in_force(store: PgStore) -> Schemas:
    with store.begin() as work:
        return schemas_of(work.rules.current())


def test_a_worker_compiles_them_at_start_and_finds_them_again(seeded: PgStore, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTREPORT_DATABASE_URL", url)
    monkeypatch.setenv("CTREPORT_REDIS_URL", "redis://127.0.0.1:1/0")
    settings.cache_clear()
    try:
        wiring_drafts.warm("draft")
        before = schemas_of.cache_info().misses
        assert wiring_drafts.schemas().texts() == packaged().texts()
        assert wiring_drafts.schemas() is wiring_drafts.schemas()
        assert schemas_of.cache_info().misses == before
    finally:
        wiring.close()
        wiring_drafts.drafting.cache_clear()
        wiring_drafts.generator.cache_clear()
        settings.cache_clear()


def edit(store: PgStore, folder: Path, text: str) -> int:
    file = folder / "site.toml"
    file.write_text(text, encoding="utf-8")
    with store.begin() as work:
        return change(work.session, kind_of("lexicon"), file, "Dr. Wang", "", add=True)


def test_the_table_holds_the_terms_that_were_asked_for(seeded: PgStore) -> None:
    assert rows.count(seeded, "lexicon_entries") >= FEWEST_TERMS


def test_the_seeded_terms_give_the_strings_that_models_are_trained_with(seeded: PgStore) -> None:
    found = in_force(seeded)
    assert found.whole.encode() == schema_text().encode()
    assert [found.section(name) for name in SECTIONS] == [section_schema(name) for name in SECTIONS]


def test_they_are_compiled_once_per_version_and_anew_for_the_next(seeded: PgStore, tmp_path: Path) -> None:
    first = in_force(seeded)
    assert in_force(seeded) is first
    added = '[[group]]\nkind = "density"\nsource = "site"\nentries = [{ term = "混杂型", tags = ["schema:密度:4"] }]\n'
    assert edit(seeded, tmp_path, added) == 2
    second = in_force(seeded)
    assert (second.version, second.words.densities) == (2, ("实性", "磨玻璃", "部分实性", "混杂型"))
    assert in_force(seeded) is second


def test_a_new_version_of_other_rules_leaves_every_byte_of_the_schema(seeded: PgStore) -> None:
    before = in_force(seeded).texts()
    with seeded.begin() as work:
        versions.changed(work.session, "terms", "doctor", "", lambda now, version: set_terms(now, {"胸水": "胸腔积液"}, version), 1)
    after = in_force(seeded)
    assert after.version == 2
    assert after.texts() == before


def test_a_word_that_no_schema_can_hold_is_refused_when_it_is_written_and_nothing_changes(seeded: PgStore, tmp_path: Path) -> None:
    wrong = '[[group]]\nkind = "finding"\nsource = "site"\nentries = [{ term = "阴影样", tags = ["schema:类型:3"] }]\n'
    with pytest.raises(BadInput, match="compared with the images"):
        edit(seeded, tmp_path, wrong)
    assert in_force(seeded).version == 1
