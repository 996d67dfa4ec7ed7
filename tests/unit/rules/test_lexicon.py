"""The package's lexicon: size, trees, cues, and that it says nothing twice."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from pipeline.checking import RuleSet
from pipeline.entry import CUES, OBSERVED, Entry, Kind, Level
from pipeline.errors import BadInput
from pipeline.rules.lexicon import Place, compiled
from pipeline.rules.reading import checked, read_lexicon
from pipeline.rules.seed import seed_lexicon, seed_terms
from pipeline.rules.spans import folded
from pipeline.rules.terms import replaced
from pipeline.rules.writing import lexicon_toml
from tests.unit.rules.lexicons import LEXICON

ENTRIES = seed_lexicon()
FORBIDDEN = [(form, entry.term) for entry in ENTRIES for form in entry.forbidden]


def test_there_are_at_least_1500_terms_each_with_its_source_and_each_form_once() -> None:
    assert len(ENTRIES) >= 1500
    assert all(entry.source for entry in ENTRIES)
    forms = Counter(folded(form) for entry in ENTRIES for form in entry.forms())
    assert [form for form, count in forms.items() if count > 1] == []


def test_every_kind_of_the_issue_is_there() -> None:
    kinds = Counter(entry.kind for entry in ENTRIES)
    assert set(kinds) == set(Kind)
    assert kinds[Kind.ANATOMY] >= 900
    assert sum(kinds[kind] for kind in OBSERVED) >= 500


@pytest.mark.parametrize("side", ["左", "右"])
def test_lungs_have_ten_segments_a_side_under_their_lobes(side: str) -> None:
    segments = {entry.term: LEXICON.places[entry.term] for entry in ENTRIES if entry.level is Level.SEGMENT and entry.parent.startswith(f"{side}肺")}
    lung = {term: place for term, place in segments.items() if place.organ == "肺"}
    numbered = {form for term in lung for form in LEXICON.terms[term].synonyms if re.search(r"肺S[0-9+]+$", form)}
    numbers = {number for form in numbered for number in re.findall(r"\d+", form)}
    assert numbers == {str(n) for n in range(1, 11)}
    assert {place.lobe for place in lung.values()} == ({"上叶", "下叶"} if side == "左" else {"上叶", "中叶", "下叶"})


def test_liver_segments_and_node_stations_are_complete() -> None:
    assert all(f"肝S{n}段" in LEXICON.terms for n in range(1, 9))
    stations = {place.segment for place in LEXICON.places.values() if place.organ == "淋巴结" and place.segment}
    numbers = {int(match[0]) for station in stations if (match := re.match(r"\d+", station))}
    assert numbers | {10} == set(range(1, 15))  # the hilar nodes are called 左侧肺门淋巴结, with 10L组淋巴结 as a synonym
    assert LEXICON.entries["10L组淋巴结"].term == "左侧肺门淋巴结"


def test_a_place_knows_its_organ_side_lobe_and_segment() -> None:
    assert LEXICON.places["左肺上叶尖后段"] == Place("肺", "左", "上叶", "尖后段")
    assert LEXICON.places["肝S8段"] == Place("肝", "右", "右叶", "肝S8段")
    assert LEXICON.is_a("左肺上叶尖后段", "左肺")
    assert LEXICON.is_a("实性结节", "结节")
    assert not LEXICON.is_a("结节", "实性结节")


def test_critical_findings_organs_of_one_sex_and_words_of_contrast_are_tagged() -> None:
    critical = {entry.term for entry in LEXICON.tagged("critical")}
    assert {"张力性气胸", "主动脉夹层", "肺栓塞", "消化道穿孔", "颅内出血"} <= critical
    assert {"子宫", "卵巢"} <= {entry.term for entry in LEXICON.tagged("female")}
    assert {"前列腺", "精囊"} <= {entry.term for entry in LEXICON.tagged("male")}
    assert {"动脉期", "明显强化", "增强后"} <= {entry.term for entry in LEXICON.tagged("needs-contrast")}


def test_sides_of_a_term_and_of_its_parents_agree() -> None:
    for entry in ENTRIES:
        sides = {one.side for one in LEXICON.above(entry.term) if one.side in ("左", "右")}
        assert len(sides) <= 1 or entry.term == "肝S1段", entry.term


@pytest.mark.parametrize(("form", "term"), FORBIDDEN)
def test_a_forbidden_form_becomes_its_term_and_changes_neither_side_nor_number(form: str, term: str) -> None:
    assert replaced(form, LEXICON)[0] == term
    assert replaced(term, LEXICON) == (term, ())
    assert re.findall(r"[左右\d]", form) == re.findall(r"[左右\d]", term)


def test_no_allowed_form_is_replaced() -> None:
    allowed = {form for entry in ENTRIES for form in (entry.term, *entry.synonyms)}
    assert {form: done for form in allowed if (done := replaced(form, LEXICON)[0]) != form} == {}


def test_terms_and_lexicon_never_disagree() -> None:
    terms = seed_terms()
    assert {form: (terms[form], term) for form, term in FORBIDDEN if form in terms and terms[form] != term} == {}


def test_cues_have_scopes_and_nothing_else_has() -> None:
    assert all((entry.scope is not None) == (entry.kind in CUES) for entry in ENTRIES)


def test_what_is_written_is_read_back_alike() -> None:
    again = checked(read_lexicon(lexicon_toml(ENTRIES)))
    assert {entry.term: entry for entry in again} == {entry.term: entry for entry in ENTRIES}


def test_a_lexicon_is_compiled_once_per_rule_set() -> None:
    rules = RuleSet(1, {})
    assert compiled(rules) is compiled(rules)
    assert compiled(RuleSet(1, {})) is not compiled(RuleSet(1, {}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[group]]\nkind = "finding"\nsource = "s"\nentries = [\n  "甲",\n  { term = "乙", colour = "红" },\n]', "line 6: unknown field 'colour'"),
        ('[[group]]\nkind = "finding"\nentries = [\n  "甲",\n]', "line 4: 'source' must be a text"),
        ('[[group]]\nkind = "finding"\nsource = "s"\nentries = [\n\n  { term = "乙", side = "上" },\n]', "line 6: side '上' is none"),
        ('[[group]]\nkind = "negation"\nsource = "s"\nentries = ["无"]', "line 4: '无': a cue"),
        ('[[group]]\nkind = "finding"\nsource = "s"\nentries = [3]', "line 1: an entry of this group is int"),
        ('\n[[template]]\nkind = "anatomy"\nsource = "s"\nterm = "{side}肺{lobe}"\neach = { side = ["左"] }', "line 2: the pattern names 'lobe'"),
        ("[groups]\nx = 1", "'groups' is neither"),
        ("[[group]\n", "no TOML"),
    ],
)
def test_a_bad_file_is_refused_with_the_line_and_the_reason(text: str, told: str) -> None:
    with pytest.raises(BadInput, match=re.escape(told)):
        read_lexicon(text, "site.toml")


def test_parents_in_a_circle_are_refused() -> None:
    with pytest.raises(BadInput, match="circle"):
        checked([Entry("甲", Kind.FINDING, "s", parent="乙"), Entry("乙", Kind.FINDING, "s", parent="甲")])
