"""Settings become the values that steps take."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from pipeline.errors import ServiceUnavailable, StorageFull
from pipeline.model import Priority, Step
from pipeline.settings import WorkSettings
from pipeline.urgency import USUAL, Slots, UrgencyRule
from workers import policy


def test_a_family_of_the_setting_takes_the_place_of_the_usual_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTREPORT_WORK_RETRIES", json.dumps({"service": {"tries": 2, "first_s": 7}}))
    retry = policy.retry(WorkSettings())
    pause_s = retry.after(ServiceUnavailable("x"), 1)
    assert pause_s is not None
    assert 3.5 <= pause_s <= 7.0
    assert retry.after(ServiceUnavailable("x"), 2) is None
    assert retry.after(StorageFull("x"), 20) is not None


def test_slots_bound_a_step_only_where_the_site_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert policy.slots(WorkSettings(), Step.DRAFT).capacity is None
    monkeypatch.setenv("CTREPORT_WORK_MAX_DRAFTING", "12")
    monkeypatch.setenv("CTREPORT_WORK_STAT_SLOTS", "2")
    assert policy.slots(WorkSettings(), Step.DRAFT) == Slots(12, 2)
    assert policy.slots(WorkSettings(), Step.ENCODE).capacity is None


def test_priorities_come_from_the_sites_own_list_where_it_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert policy.urgency(WorkSettings()) == USUAL
    monkeypatch.setenv("CTREPORT_WORK_URGENCY", json.dumps([{"priority": "inpatient", "aet": "^WARD"}]))
    assert policy.urgency(WorkSettings()) == (UrgencyRule(Priority.INPATIENT, aet="^WARD"),)
    monkeypatch.setenv("CTREPORT_WORK_URGENCY", "[]")
    assert policy.urgency(WorkSettings()) == ()


@pytest.mark.parametrize("row", [{"priority": "stat"}, {"priority": "now", "aet": "X"}, {"priority": "stat", "aet": "["}])
def test_an_entry_that_names_nothing_or_cannot_be_searched_for_is_refused(row: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTREPORT_WORK_URGENCY", json.dumps([row]))
    with pytest.raises(ValidationError):
        WorkSettings()
