"""When a night ends, and which nights are due."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.flow.sample import night_of, night_with, span

SHANGHAI, BERLIN = ZoneInfo("Asia/Shanghai"), ZoneInfo("Europe/Berlin")
SIX = time(6)


@pytest.mark.parametrize(
    ("now", "night"),
    [
        (datetime(2026, 11, 29, 21, 59, 59, tzinfo=UTC), date(2026, 11, 29)),  # 05:59:59 of the 30th in Shanghai
        (datetime(2026, 11, 29, 22, 0, tzinfo=UTC), date(2026, 11, 30)),
        (datetime(2026, 11, 30, 15, 59, tzinfo=UTC), date(2026, 11, 30)),
    ],
)
def test_a_night_is_over_at_its_hour_in_the_sites_time(now: datetime, night: date) -> None:
    assert night_of(now, SIX, SHANGHAI) == night


@pytest.mark.parametrize(("night", "hours"), [(date(2026, 3, 29), 23), (date(2026, 10, 25), 25), (date(2026, 6, 1), 24)])
def test_nights_of_the_clock_change_are_an_hour_shorter_or_longer(night: date, hours: int) -> None:
    since, until = span(night, SIX, BERLIN)
    assert until.astimezone(UTC) - since.astimezone(UTC) == timedelta(hours=hours)


@given(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)), st.sampled_from([SHANGHAI, BERLIN]), st.times())
def test_the_newest_night_that_is_over_ends_before_now_and_the_next_one_does_not(moment: datetime, zone: ZoneInfo, at: time) -> None:
    now = moment.replace(tzinfo=UTC)
    night = night_of(now, at, zone)
    hour = timedelta(hours=1)  # an hour that comes twice, or never, on the day of the clock change
    assert span(night, at, zone)[1].astimezone(UTC) <= now + hour
    assert span(night + timedelta(days=1), at, zone)[1].astimezone(UTC) > now - hour


@given(st.dates(date(2020, 1, 1), date(2030, 1, 1)), st.times())
def test_nights_follow_each_other_without_a_gap(night: date, at: time) -> None:
    assert span(night, at, BERLIN)[1] == span(night + timedelta(days=1), at, BERLIN)[0]


@given(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)), st.times())
def test_what_is_written_at_a_moment_belongs_to_the_night_around_it(moment: datetime, at: time) -> None:
    now = moment.replace(tzinfo=UTC)
    since, until = span(night_with(now, at, SHANGHAI), at, SHANGHAI)
    assert since <= now < until
