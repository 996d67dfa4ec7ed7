"""What an N-CREATE or N-SET says, whatever its bytes."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.dataset import Dataset
from pynetdicom.dsutils import decode, encode

from pipeline.dicom.elements import FAULTS
from pipeline.dicom.mpps import Refused, read_change, read_step
from pipeline.modalities import PerformedStep, StepChange, StepStatus
from tests.integration.dicom.services import done, put, step

WHOLE = encode(step("1.2.3", TimezoneOffsetFromUTC="+0800"), True, True) or b""
LAST = encode(done("1.1", "1.2", other=["1.3"]), True, True) or b""


def told(data: bytes) -> Dataset | None:
    try:
        return decode(BytesIO(data), True, True)
    except FAULTS:
        return None


def answered(read: Callable[[], object]) -> object:
    """What was read, or the status of the refusal."""
    try:
        return read()
    except Refused as refused:
        return refused.status


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), st.integers(0, len(WHOLE)))
def test_a_damaged_request_is_a_step_or_is_refused_and_never_an_exception(position: int, value: int, length: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[position] = value
    ds = told(bytes(damaged[:length]))
    if ds is None:
        return
    answer = answered(lambda: read_step(ds, "1.9", "CT1"))
    assert isinstance(answer, PerformedStep) or answer in (0x0106, 0x0120, 0x0121)


@given(st.integers(0, len(LAST) - 1), st.integers(0, 255))
def test_a_damaged_change_is_a_change_or_is_refused(position: int, value: int) -> None:
    damaged = bytearray(LAST)
    damaged[position] = value
    ds = told(bytes(damaged))
    if ds is None:
        return
    answer = answered(lambda: read_change(ds))
    assert isinstance(answer, StepChange) or answer in (0x0106, 0x0121)


def test_only_what_is_mentioned_changes() -> None:
    assert read_change(Dataset()) == StepChange()
    ds = Dataset()
    put(ds, "PerformedSeriesSequence", [])
    assert read_change(ds) == StepChange(expected=())
    whole = read_change(done("1.1", other=["1.3"]))
    assert (whole.status, whole.expected) == (StepStatus.COMPLETED, ("1.1", "1.3"))


@pytest.mark.parametrize(("date", "time"), [("20261399", "101010"), ("", ""), ("20260115", "9"), ("2026", "101010"), ("20260115", "250000")])
def test_a_time_that_is_none_is_left_out(date: str, time: str) -> None:
    ds = step("1.2.3")
    put(ds, "PerformedProcedureStepStartDate", date)
    put(ds, "PerformedProcedureStepStartTime", time)
    found = read_step(told(encode(ds, True, True) or b"") or Dataset(), "1.9", "CT1")
    assert found.started_at is None
