"""The morning report's figures, and how they read."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.export.morning import morning_markdown
from pipeline.flow.morning import covered, hours, is_late, morning, spread
from pipeline.model import Priority
from pipeline.nightly import Encoding, Kind, Night, NightDraft, NightStudy, Pace, Plan, Reading, Window
from pipeline.sampling import Alarm, Chart, Sample, Stratum

OPENS = datetime(2026, 11, 30, 14, tzinfo=UTC)
WINDOW = Window(OPENS, OPENS + timedelta(hours=8))
READER, NOW = OPENS + timedelta(hours=10), OPENS + timedelta(hours=9)
SHANGHAI = ZoneInfo("Asia/Shanghai")


def after(**time: float) -> datetime:
    return OPENS + timedelta(**time)


def study(number: int, **changes: Any) -> NightStudy:
    values: dict[str, Any] = {"priority": Priority.ROUTINE, "state": "drafted", "step": None, "reason": "", "partial": "", "received": OPENS}
    values |= {"drafted_at": after(hours=1), "kind": Kind.UNREAD, "reads_at": READER, "expected_at": after(hours=2)}
    return NightStudy(UUID(int=number), **(values | changes))


def written(number: int, minutes: float = 10, **changes: Any) -> NightDraft:
    values: dict[str, Any] = {"department": "radiology", "priority": Priority.ROUTINE, "received": OPENS, "drafted_at": after(minutes=minutes)}
    values |= {"seconds": 60.0, "served": False, "drafted": 100, "accepted": 80, "flags": {}}
    return NightDraft(UUID(int=number), **(values | changes))


def night(**changes: Any) -> Night:
    plan = Plan(UUID(int=99), WINDOW, READER, OPENS, None, Pace(5.0, 20.0, 12))
    waiting: dict[str, Any] = {"drafted_at": None, "expected_at": after(hours=9)}
    studies = (
        study(1),
        study(2, partial="缺 3 层", priority=Priority.STAT),
        study(3, state="failed", reason="权重|缺失", **waiting),
        study(4, state="failed", reason="权重|缺失", **waiting),
        study(5, state="encoded", step="draft", drafted_at=None, expected_at=after(hours=11)),
        study(6, state="ready", step="encode", **waiting),
        study(7, kind=Kind.BACKLOG, reads_at=None, state="ready", step="encode", drafted_at=None, priority=Priority.NIGHT),
        study(8, kind=None, reads_at=None, expected_at=None, departments=("oncology",)),
    )
    drafts = (
        written(1, flags={("laterality", "block"): 1, ("term", "replaced"): 2}),
        written(2, 4, priority=Priority.STAT),
        written(8, 20, department="oncology", served=True, drafted=0, accepted=0),
    )
    opened = after(hours=8)
    readings = (
        Reading("radiology", Priority.ROUTINE, after(hours=7), opened, opened + timedelta(minutes=6)),
        Reading("radiology", Priority.STAT, after(hours=7), opened, None),
    )
    encodings = (Encoding("compact", OPENS, after(minutes=30)), Encoding("resnet50", OPENS, after(minutes=15)))
    values: dict[str, Any] = {"plan": plan, "studies": studies, "drafts": drafts, "readings": readings, "encodings": encodings}
    return Night(WINDOW, READER, NOW, **(values | changes))


def sample(*alarms: Alarm, learning: int = 0) -> Sample:
    strata = (Stratum("radiology", "CT1", 120, 12),)
    return Sample(OPENS.date() + timedelta(days=1), OPENS, after(hours=24), 0.1, 0, strata, (), alarms, learning)


def alarm(figure: str = "sides", chart: Chart = Chart.JUMP, **changes: Any) -> Alarm:
    values: dict[str, Any] = {"scanners": ("CT|1",), "departments": ("radiology", "oncology"), "models": ("tiny@abc",), "rules_versions": (7,)}
    values |= {"value": 0.8, "expected": 0.99, "limit": 0.9, "drafts": 12, "baseline_drafts": 300}
    return Alarm(OPENS.date(), figure, chart, **(values | changes))


def test_drift_of_the_nights_sample_is_in_the_report_with_scanner_department_model_and_rules() -> None:
    facts = morning(night(), sample(alarm(), alarm("length", Chart.TREND, fresh=("rules 7",))))
    assert [(one["figure"], one["scanner"], one["rules"]) for one in facts["drift"]["alarms"]] == [("sides", "CT|1", "7"), ("length", "CT|1", "7")]
    text = morning_markdown(facts, SHANGHAI)
    assert "抽查 0 / 120 份草稿；漂移 2 项" in text
    assert "- 侧别相符（当夜突变）：0.8，预期 0.99，界限 0.9；设备 CT\\|1；科室 放射科、肿瘤科；模型 tiny@abc；规则 7\n" in text
    assert "- 报告字数（持续变化）" in text
    assert "；新出现：rules 7" in text


@pytest.mark.parametrize(("taken", "said"), [(None, "本夜尚未抽样"), (sample(), "无漂移"), (sample(learning=30), "基线尚缺 30 份，暂不能判断")])
def test_that_nothing_drifts_is_told_apart_from_that_nobody_could_tell(taken: Sample | None, said: str) -> None:
    text = morning_markdown(morning(night(), taken), SHANGHAI)
    assert [word in text for word in ("本夜尚未抽样", "无漂移", "暂不能判断")].count(True) == 1
    assert said in text


def test_it_counts_planned_ready_partial_failed_and_open() -> None:
    facts = morning(night())
    assert facts["studies"] == {"ready": 3, "partial": 1, "failed": 2, "open": 3, "planned": 7, "arrived": 1}
    assert facts["planned"]["kinds"] == {"unread": 6, "backlog": 1}
    assert facts["failed"] == [{"state": "failed", "reason": "权重|缺失", "count": 2, "studies": [str(UUID(int=3)), str(UUID(int=4))]}]


def test_it_names_what_will_not_be_ready_for_the_first_reader() -> None:
    facts = morning(night())
    assert [UUID(row["id"]).int for row in facts["not_ready"]] == [3, 4, 5]  # 6 will be there in time, nobody waits for 7


def test_what_is_not_there_when_it_is_wanted_is_late_whatever_the_plan_expected() -> None:
    one = study(1, drafted_at=None, state="ready", expected_at=after(hours=2))
    assert not is_late(one, night())
    assert is_late(one, Night(WINDOW, READER, READER + timedelta(minutes=1), None, (), (), (), ()))


def test_times_have_median_and_p95_per_priority_and_acceptance_is_that_of_all_drafts() -> None:
    facts = morning(night())
    assert facts["arrival_to_draft_s"] == {
        "all": {"n": 3, "median": 600.0, "p95": 1200.0},
        "stat": {"n": 1, "median": 240.0, "p95": 240.0},
        "routine": {"n": 2, "median": 900.0, "p95": 1200.0},
    }
    assert facts["opened_to_signed_s"] == {"all": {"n": 1, "median": 360.0, "p95": 360.0}, "routine": {"n": 1, "median": 360.0, "p95": 360.0}}
    assert facts["draft_to_opened_s"]["all"]["n"] == 2
    assert facts["acceptance"] == 0.8
    assert facts["flags"] == {"drafts": 1, "severity": {"replaced": 2, "block": 1}, "rule": {"term": 2, "laterality": 1}}


def test_each_department_has_its_own_figures() -> None:
    departments = morning(night())["departments"]
    assert (departments["oncology"]["ready"], departments["oncology"]["unwritten"], departments["oncology"]["acceptance"]) == (1, 1, None)
    assert (departments["radiology"]["ready"], departments["radiology"]["partial"]) == (2, 1)
    assert departments["radiology"]["hours"] == {"cpu": round(120 / 3600, 4), "gpu": 0.0}


def test_hours_of_a_server_count_once_however_much_it_writes_at_once() -> None:
    served = [written(number, minutes, served=True, seconds=600.0) for number, minutes in enumerate((10, 15, 40))]
    assert hours(served) == {"cpu": 0.0, "gpu": round(25 / 60, 4)}
    assert morning(night())["hours"] == {"cpu": round(0.5 + 120 / 3600, 4), "gpu": round(0.25 + 1 / 60, 4)}


def test_a_night_without_anything_is_told_too() -> None:
    facts = morning(night(plan=None, studies=(), drafts=(), readings=(), encodings=()))
    assert (facts["plan"], facts["acceptance"], facts["not_ready"], facts["departments"]) == (None, None, [], {})
    assert "首位阅片时均已就绪" in morning_markdown(facts, SHANGHAI)


def test_the_page_says_it_in_the_sites_time_and_escapes_what_is_free_text() -> None:
    text = morning_markdown(morning(night()), SHANGHAI)
    assert "时段 11-30 22:00 至 12-01 06:00；首位阅片 12-01 08:00" in text
    assert "首位阅片时未就绪：3 例" in text
    assert "2 例失败：权重\\|缺失" in text
    assert "12 → 6 分钟" in text
    assert "| 急诊 | 4.0 / 4.0（1） |" in text
    assert "| 肿瘤科 | 1 | 0 | 1 |" in text
    assert "CPU 0.53 小时，GPU 0.27 小时" in text


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_p95_is_the_smallest_value_that_95_percent_do_not_exceed(values: list[float]) -> None:
    p95 = spread(values)["p95"]
    rounded = [round(value, 3) for value in values]
    assert sum(value <= p95 for value in rounded) >= 0.95 * len(values)
    assert all(sum(value <= smaller for value in rounded) < 0.95 * len(values) for smaller in rounded if smaller < p95)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=20))
def test_covered_time_is_that_of_counting_minutes(some: list[tuple[int, int]]) -> None:
    spans = [(min(pair), max(pair)) for pair in some]
    minutes = {minute for begins, ends in spans for minute in range(begins, ends)}
    assert covered((after(minutes=a), after(minutes=b)) for a, b in spans) == timedelta(minutes=len(minutes))


@pytest.mark.parametrize("count", [20, 21])
def test_a_long_list_is_cut_and_says_so(count: int) -> None:
    rows = tuple(study(number, state="failed", drafted_at=None) for number in range(1, count + 1))
    text = morning_markdown(morning(night(studies=rows, drafts=())), SHANGHAI)
    assert ("另有 1 例" in text) == (count == 21)
