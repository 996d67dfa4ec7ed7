"""CTREPORT_ASSEMBLE_REQUIRED: a JSON list of series rules, checked when it is read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pipeline.settings import AssembleSettings, SeriesRule


def test_rules_are_read_from_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTREPORT_ASSEMBLE_REQUIRED", '[{"name": "薄层", "series": "1\\\\.0|thin", "station": "CT1", "images": 100}]')
    assert AssembleSettings().required == (SeriesRule(name="薄层", series="1\\.0|thin", station="CT1", images=100),)


def test_without_the_setting_nothing_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CTREPORT_ASSEMBLE_REQUIRED", raising=False)
    assert AssembleSettings().required is None


@pytest.mark.parametrize(
    "text", ['[{"name": "a", "series": "("}]', '[{"name": "", "series": "a"}]', '[{"name": "a"}]', '[{"name": "a", "series": "a", "image": 3}]']
)
def test_a_rule_that_cannot_be_meant_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("CTREPORT_ASSEMBLE_REQUIRED", text)
    with pytest.raises(ValidationError):
        AssembleSettings()
