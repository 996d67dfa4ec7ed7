from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.nightly import DAY, OffPeak

SHANGHAI, NEW_YORK = ZoneInfo("Asia/Shanghai"), ZoneInfo("America/New_York")
NIGHT = OffPeak(time(22), time(6), SHANGHAI, time(8))
ABROAD = OffPeak(time(22), time(6), NEW_YORK, time(8))
clocks = st.times().map(lambda one: one.replace(second=0, microsecond=0))
hours = st.builds(OffPeak, clocks, clocks, st.sampled_from([SHANGHAI, NEW_YORK, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("UTC")]), clocks)
moments = st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC))


def local(*parts: int, zone: ZoneInfo = SHANGHAI) -> datetime:
    return datetime(*parts, tzinfo=zone)  # type: ignore[misc,arg-type]  # year to minute


def test_the_window_goes_across_midnight_in_the_sites_own_time() -> None:
    window = NIGHT.current(local(2026, 11, 30, 23, 30))
    assert window is not None
    assert (window.opens, window.closes) == (local(2026, 11, 30, 22), local(2026, 12, 1, 6))
    assert NIGHT.current(local(2026, 12, 1, 5, 59)) == window
    assert NIGHT.current(local(2026, 12, 1, 6)) is None
    assert NIGHT.latest(local(2026, 12, 1, 7)) == window
    assert NIGHT.read_from(window) == local(2026, 12, 1, 8)


def test_by_day_night_work_waits_for_the_next_opening_and_in_the_window_not_at_all() -> None:
    assert NIGHT.wait_s(local(2026, 12, 1, 20)) == 7200.0
    assert NIGHT.wait_s(local(2026, 12, 1, 22)) == 0.0
    assert NIGHT.following(local(2026, 12, 1, 23)).opens == local(2026, 12, 2, 22)


@pytest.mark.parametrize(
    ("day", "length_h"), [(date(2026, 3, 7), 7), (date(2026, 10, 31), 9), (date(2026, 6, 1), 8)], ids=["spring", "autumn", "june"]
)
def test_where_clocks_change_the_window_keeps_its_times_and_is_an_hour_shorter_or_longer(day: date, length_h: int) -> None:
    window = ABROAD.opening_on(day)
    assert window.closes - window.opens == timedelta(hours=length_h)
    assert (window.opens.astimezone(NEW_YORK).time(), window.closes.astimezone(NEW_YORK).time()) == (time(22), time(6))


def test_a_time_that_is_shown_twice_ends_with_the_second() -> None:
    window = OffPeak(time(1, 15), time(1, 45), NEW_YORK, time(8)).opening_on(date(2026, 11, 1))
    assert window.closes - window.opens == timedelta(hours=1, minutes=30)


def test_a_window_that_the_clocks_skip_does_not_open() -> None:
    window = OffPeak(time(2, 30), time(3), NEW_YORK, time(8)).opening_on(date(2026, 3, 8))
    assert window.opens == window.closes
    assert window.opens not in window


@given(clocks, clocks, moments)
def test_equal_times_never_close(at: time, reader: time, now: datetime) -> None:
    always = OffPeak(at, at, NEW_YORK, reader)
    assert always.wait_s(now) == 0.0


@given(hours, st.dates(date(2026, 1, 1), date(2027, 12, 1)))
def test_windows_follow_each_other_and_never_overlap(site: OffPeak, day: date) -> None:
    window, following = site.opening_on(day), site.opening_on(day + DAY)
    assert window.opens <= window.closes <= following.opens


@given(hours, moments)
def test_one_is_in_the_window_or_waits_for_it(site: OffPeak, now: datetime) -> None:
    window, following = site.current(now), site.following(now)
    assert following.opens > now
    assert site.latest(now).opens <= now
    if window is None:
        assert now + timedelta(seconds=site.wait_s(now)) == following.opens
    else:
        assert now in window
        assert site.latest(now) == window
        assert window.opens < site.read_from(window) <= window.opens + 2 * DAY
