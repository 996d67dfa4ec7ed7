"""Rows of a site's series rules that cannot be meant are refused before the database is touched."""

from __future__ import annotations

from typing import cast

import pytest
from sqlalchemy.orm import Session

from pipeline.errors import BadInput
from pipeline.store.series_rules import set_series

GOOD: dict[str, object] = {"effect": "prefer", "series": "lung", "reason": "本院以肺窗薄层为准"}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"effect": "love", "series": "a", "reason": "x"}, "rule 2 needs effect"),
        ({"effect": "prefer", "series": "(", "reason": "x"}, "no regular expression"),
        ({"effect": "prefer", "series": "(a+)+$", "reason": "x"}, "repeats a repetition"),
        ({"effect": "prefer", "series": "a"}, "needs a `reason`"),
        ({"effect": "prefer", "reason": "x"}, "and a pattern"),
        ({"effect": "points", "series": "a", "reason": "x"}, "`points` is a whole number"),
        ({"effect": "points", "series": "a", "reason": "x", "points": 2000}, "`points` is a whole number"),
        ({"effect": "prefer", "series": "a", "reason": "x", "points": 3}, "`points` is a whole number"),
        ({"effect": "prefer", "series": "a", "reason": "x", "colour": "red"}, "unknown key 'colour'"),
        ({"effect": "prefer", "series": 3, "reason": "x"}, "`series` is a pattern"),
    ],
)
def test_a_row_that_cannot_be_meant_is_refused_with_its_number(row: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        set_series(cast("Session", None), [GOOD, row], 2)
