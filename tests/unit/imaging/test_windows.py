from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.imaging.windows import LUNG, MEDIASTINUM, Window


def by_the_standard(x: float, center: float, width: float) -> float:
    """PS3.3 C.11.2.1.2.1, letter by letter, for an output of 0…1."""
    if x <= center - 0.5 - (width - 1) / 2:
        return 0.0
    if x > center - 0.5 + (width - 1) / 2:
        return 1.0
    return (x - (center - 0.5)) / (width - 1) + 0.5


@given(st.floats(-3000, 4000), st.floats(-1000, 1000), st.floats(2, 4000))
def test_a_window_follows_the_standard(x: float, center: float, width: float) -> None:
    found = Window("any", center, width).apply(np.array([x], dtype=np.float32))[0]
    assert found == pytest.approx(by_the_standard(float(np.float32(x)), center, width), abs=2e-3)


def test_named_windows_have_their_usual_values() -> None:
    assert (LUNG.width_hu, LUNG.center_hu) == (1500, -600)
    assert (MEDIASTINUM.width_hu, MEDIASTINUM.center_hu) == (350, 40)
