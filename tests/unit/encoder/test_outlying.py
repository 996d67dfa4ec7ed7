from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.encoder.outlying import HEADROOM, Outlying

RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(120, 8)) * np.arange(1.0, 9.0)


def test_rows_of_the_same_kind_stay_inside_and_others_do_not() -> None:
    known = Outlying.fit(ROWS)
    more = RNG.normal(size=(200, 8)) * np.arange(1.0, 9.0)
    assert np.mean([known.distance(row) <= known.limit for row in more]) >= 0.98
    assert known.distance(np.full(8, 60.0)) > known.limit


def test_the_distance_counts_in_spreads_of_each_column() -> None:
    known = Outlying.fit(ROWS)
    narrow, wide = np.zeros(8), np.zeros(8)
    narrow[0], wide[7] = 8.0, 8.0
    assert known.distance(known.mean + narrow) > 3 * known.distance(known.mean + wide)


def test_the_limit_comes_from_rows_that_did_not_place_the_middle() -> None:
    known = Outlying.fit(ROWS)
    assert known.limit == pytest.approx(HEADROOM * max(known.distance(row) for row in ROWS[1::2]))


def test_what_is_saved_is_read_back_and_a_folder_without_it_has_none(tmp_path: Path) -> None:
    assert Outlying.load(tmp_path) is None
    known = Outlying.fit(ROWS)
    known.save(tmp_path)
    again = Outlying.load(tmp_path)
    assert again is not None
    assert again.limit == known.limit
    assert again.distance(ROWS[3] + 1) == known.distance(ROWS[3] + 1)
    assert (tmp_path / "outlying.safetensors").stat().st_mode & 0o044 == 0o044
