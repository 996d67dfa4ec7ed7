import contextlib
from pathlib import Path

import pytest

from pipeline.checking import CheckContext
from pipeline.entry import Entry, Kind
from pipeline.errors import BadInput
from pipeline.irradiation import DoseRule
from pipeline.model import Report
from pipeline.rules.checks import run
from pipeline.rules.lexicon import compiled
from pipeline.rules.seed import seed_dose_factors, seed_dose_rules, seed_guidance, seed_lexicon, seed_terms
from pipeline.store import versions
from pipeline.store.lexicon import set_lexicon, set_terms
from pipeline.store.seed import seed_rules
from pipeline.store.session import PgStore
from tests.integration.store import rows
from workers.commands.rule_kinds import change, kind_of, kinds

TERMS = {"毛玻璃": "磨玻璃"}
LEXICON = (Entry("结节", Kind.FINDING, "test", ("结节影",)), Entry("肺", Kind.ANATOMY, "test"))
DOSE = DoseRule("cumulative", 1, 12, 20.0, ("复查CT",), "预警")


@pytest.fixture
def seeded(store: PgStore, url: str) -> PgStore:
    seed_rules(url, TERMS, [DOSE], seed_dose_factors(), LEXICON)
    return store


def toml(folder: Path, text: str) -> Path:
    file = folder / "site.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_whole_lexicon_comes_back_from_its_rows(store: PgStore, url: str) -> None:
    seed_rules(url, seed_terms(), seed_dose_rules(), (), seed_lexicon())
    with store.begin() as work:
        kept = work.rules.current()
    assert {entry.term: entry for entry in kept.lexicon} == {entry.term: entry for entry in seed_lexicon()}


def test_rules_are_read_whole_only_when_there_is_a_newer_version(seeded: PgStore) -> None:
    with seeded.begin() as work:
        first = work.rules.current()
    with seeded.begin() as work:
        assert work.rules.current() is first
        versions.changed(work.session, "terms", "doctor", "", lambda now, version: set_terms(now, {"胸水": "胸腔积液"}, version), 1)
        second = work.rules.current()
    assert (second.version, dict(second.terms), second.lexicon) == (2, {"胸水": "胸腔积液"}, tuple(sorted(LEXICON, key=lambda entry: entry.term)))
    with seeded.begin() as work:
        assert work.rules.current() is second


def test_a_version_that_was_rolled_back_is_not_remembered(seeded: PgStore) -> None:
    with contextlib.suppress(RuntimeError), seeded.begin() as work:
        versions.changed(work.session, "terms", "doctor", "", lambda now, version: set_terms(now, {"甲": "乙"}, version), 1)
        assert dict(work.rules.current().terms) == {"甲": "乙"}
        raise RuntimeError
    with seeded.begin() as work:
        versions.changed(work.session, "terms", "doctor", "", lambda now, version: set_terms(now, {"丙": "丁"}, version), 1)
    with seeded.begin() as work:
        assert dict(work.rules.current().terms) == {"丙": "丁"}


def test_an_edited_rule_holds_for_the_next_report_without_a_restart_and_stands_in_the_trail(seeded: PgStore, tmp_path: Path) -> None:
    report = Report("见结节样灶。", "结节样灶。", "随访。")

    def checked() -> str:
        with seeded.begin() as work:
            rules = work.rules.current()
        return run(report, rules, CheckContext(rows.header(1).study_date)).report.findings_text  # type: ignore[arg-type]  # the header has a date

    assert checked() == "见结节样灶。"
    file = toml(tmp_path, '[[term]]\nforbidden = "结节样灶"\nstandard = "结节"\n')
    with seeded.begin() as work:
        assert change(work.session, kind_of("terms"), file, "Dr. Wang", "site's wording", add=True) == 2
    assert checked() == "见结节。"
    detail = rows.one(seeded, "SELECT actor, detail FROM audit WHERE action = 'rules' AND detail->>'kind' = 'terms'")
    assert detail["actor"] == "Dr. Wang"
    assert detail["detail"] == {"kind": "terms", "version": "2", "before": "1", "note": "site's wording", "rows": "2"}


def test_a_change_of_one_kind_leaves_the_others_as_they_were(seeded: PgStore) -> None:
    with seeded.begin() as work:
        versions.changed(work.session, "lexicon", "doctor", "", lambda now, version: set_lexicon(now, LEXICON[:1], version), 1)
    with seeded.begin() as work:
        rules = work.rules.current()
        assert len(work.rules.factors()) == len(seed_dose_factors())
    assert (rules.version, dict(rules.terms), [rule.id for rule in rules.dose], rules.lexicon) == (2, TERMS, [DOSE.id], LEXICON[:1])
    assert rows.one(seeded, "SELECT count(*) AS n FROM lexicon_entries WHERE version = 1")["n"] == len(LEXICON)


BAD = (
    ("terms", '[[term]]\nforbidden = "a"\nstandard = ""\n', "line 1.*'standard' must be a text"),
    ("terms", "[[term]\n", "no TOML.*line 1"),
    ("lexicon", '[[group]]\nkind = "colour"\nsource = "s"\nentries = [\n  "红",\n]\n', "line 5: 'colour' is no kind"),
    ("lexicon", '[[group]]\nkind = "finding"\nsource = "s"\nentries = ["甲", "甲"]\n', "'甲' under '甲' and again"),
    ("lexicon", '[[group]]\nkind = "finding"\nsource = "s"\nparent = "天"\nentries = ["甲"]\n', "parent '天', which is no term"),
    ("dose", '\n[[rule]]\nid = "a"\nmessage = "b"\nwindow_months = 0\nthreshold_msv = 1\ntriggers = ["CT"]\n', "line 2: dose rule 1"),
    ("factors", '[[factor]]\nregion = "chest"\nphantom_cm = 20\nages = [18]\nk = [0.01]\nsource = "s"\n', "line 1: dose factor 1"),
    ("series", '[[series]]\neffect = "prefer"\nreason = "r"\nseries = "("\n', "line 1: series rule 1"),
)


def test_a_bad_file_is_refused_with_its_line_and_changes_nothing(seeded: PgStore, tmp_path: Path) -> None:
    for kind, text, told in BAD:
        with pytest.raises(BadInput, match=told), seeded.begin() as work:
            change(work.session, kind_of(kind), toml(tmp_path, text), "doctor", "", add=False)
    with seeded.begin() as work:
        assert versions.in_force(work.session) == 1


def test_nobody_changes_rules_without_a_name(seeded: PgStore, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--by"), seeded.begin() as work:
        change(work.session, kind_of("terms"), toml(tmp_path, '[[term]]\nforbidden = "a"\nstandard = "b"\n'), " ", "", add=False)


def test_what_is_shown_can_be_set_again_and_is_the_same(store: PgStore, url: str, tmp_path: Path) -> None:
    seed_rules(url, seed_terms(), seed_dose_rules(), seed_dose_factors(), seed_lexicon(), seed_guidance())
    prefer = toml(tmp_path, '[[series]]\neffect = "prefer"\nreason = "薄层"\nseries = "1\\\\.0"\n')
    with store.begin() as work:
        change(work.session, kind_of("series"), prefer, "doctor", "", add=False)
    for kind in kinds().values():
        with store.begin() as work:
            rows_before = kind.current(work.session, versions.in_force(work.session))
            change(work.session, kind, toml(tmp_path, kind.toml(rows_before)), "doctor", "", add=False)
        with store.begin() as work:
            rows_after = kind.current(work.session, versions.in_force(work.session))
        assert kind.lines(rows_before) == kind.lines(rows_after) != [], kind.name


def test_rules_from_before_the_lexicon_get_it_as_a_new_version(store: PgStore, url: str) -> None:
    seed_rules(url, TERMS, [DOSE])
    assert seed_rules(url, TERMS, [DOSE], (), LEXICON) == 0
    assert seed_rules(url, TERMS, [DOSE], (), LEXICON[:1]) == 0
    with store.begin() as work:
        rules = work.rules.current()
        assert [(one.version, one.actor) for one in versions.history(work.session)] == [(2, "system"), (1, "system")]
    assert (rules.version, len(rules.lexicon), compiled(rules).entries["结节影"].term) == (2, 2, "结节")
