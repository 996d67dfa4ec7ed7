"""What a report holds of each finding, saved with the draft and shown to readers."""

from dataclasses import asdict, replace

from pipeline.checking import Elements, Grading, Malignancy
from pipeline.export.markdown import draft_markdown
from pipeline.store.session import PgStore
from tests.integration.store import rows

GRADING = Grading("Lung-RADS v2022", "4A-solid", "4A", "3 个月低剂量 CT", "结节大小 8 mm", "ACR")
PROBABILITY = Malignancy(0.1588, "Brock", "NEJM 2013", {"age_years": 60.0, "female": True, "density": "实性"})
WHOLE = Elements(
    "尖段", "类圆形", "明显强化", "建议复查。", GRADING, PROBABILITY, "1.2.3.9.2", 1, {"site": "measured", "margin": "draft", "grading": "guideline"}
)


def shown(store: PgStore, *elements: Elements) -> dict[str, object]:
    """The draft of a study with one finding, as readers get it."""
    job = rows.drafting_job(store)
    made = rows.draft(job)
    with store.begin() as work:
        draft_id = work.studies.save_draft(job, replace(made, checked=replace(made.checked, elements=elements)), rows.ME)
    with store.begin() as work:
        return dict(work.reports.shown(draft_id))


def test_every_element_comes_back_with_the_image_that_shows_it(store: PgStore) -> None:
    (finding,) = shown(store, WHOLE)["draft"]["findings"]  # type: ignore[index]  # the keys of DESIGN section 7
    assert (finding["side"], finding["lobe"], finding["size_mm"]) == ("右肺", "上叶", 8)
    assert (finding["segment"], finding["shape"], finding["enhancement"], finding["advice"]) == ("尖段", "类圆形", "明显强化", "建议复查。")
    assert finding["grading"] == asdict(GRADING)
    assert finding["malignancy"] == asdict(PROBABILITY)
    assert finding["sources"] == WHOLE.sources
    evidence = {"candidate": 1, "slice_sop_uid": "1.2.3.9.2", "frame": 1, "series_number": None, "image_number": 2}
    assert finding["evidence"] == evidence


def test_what_nobody_knows_is_null_in_the_database_and_for_readers(store: PgStore) -> None:
    (finding,) = shown(store, Elements())["draft"]["findings"]  # type: ignore[index]  # the keys of DESIGN section 7
    unknown = ("segment", "shape", "enhancement", "advice", "grading", "malignancy")
    assert [finding[name] for name in unknown] == [None] * len(unknown)
    assert finding["evidence"] == {"candidate": 1, "slice_sop_uid": None, "frame": None, "series_number": None, "image_number": None}
    row = rows.one(store, "SELECT grading IS NULL AS graded, malignancy IS NULL AS likely FROM draft_findings")
    assert row == {"graded": True, "likely": True}  # not a JSON null


def test_a_draft_without_elements_is_shown_as_before(store: PgStore) -> None:
    (finding,) = shown(store)["draft"]["findings"]  # type: ignore[index]  # the keys of DESIGN section 7
    assert (finding["margin"], finding["sources"]) == ("毛刺", {})


def test_each_section_says_whether_rules_changed_it(store: PgStore) -> None:
    draft = shown(store, WHOLE)["draft"]
    assert draft["section_sources"] == {"检查所见": ["draft", "rules"], "诊断意见": ["draft"], "建议": ["draft"]}  # type: ignore[index]  # a draft


def test_the_markdown_names_slice_class_and_probability(store: PgStore) -> None:
    text = draft_markdown(shown(store, WHOLE))
    assert "证据：候选 1，第 2 幅" in text
    assert "Lung-RADS v2022 4A 类" in text
    assert "恶性概率：15.9%" in text
    assert "规则改动：检查所见" in text
