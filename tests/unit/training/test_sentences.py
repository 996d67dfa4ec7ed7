"""Texts for the lookup drafter: as many as fit, of every department and kind of indication."""

from __future__ import annotations

import json

from pipeline.drafting.parse import parse
from pipeline.training.sentences import MAX_BYTES, typical_reports
from tests.unit.training.fake_views import fake_views

VIEWS = fake_views(60)


def test_each_line_is_a_report_and_they_differ() -> None:
    lines = typical_reports(VIEWS)
    assert len(lines) == 60
    assert all(parse(line) and "\n" not in line for line in lines)
    texts = " ".join(json.loads(line)["检查所见"]["描述"] for line in lines)
    assert all(word in texts for word in ("分期依据", "复查", "低剂量", "所示骨质结构完整"))


def test_they_never_take_more_bytes_than_allowed() -> None:
    lines = typical_reports(VIEWS, 20_000)
    used = sum(len(line.encode()) + 1 for line in lines)
    assert 15_000 < used <= 20_000 < MAX_BYTES
