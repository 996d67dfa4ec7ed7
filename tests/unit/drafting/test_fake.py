"""The shipped fake drafter."""

from __future__ import annotations

import jsonschema
import numpy as np
import pytest

from pipeline.drafting.fake import FakeDrafter, report_of
from pipeline.drafting.parse import parse
from pipeline.drafting.schema import report_schema
from pipeline.errors import ServiceUnavailable
from pipeline.model import Candidate, Features, Side

CANDIDATE = Candidate(1, "结节", (60.0, 0.0, 0.0), Side.LEFT, "上叶", "实性", 8.4, 0.9)
FEATURES = Features(np.zeros((3, 4), np.float32), "fake", "1", "", (CANDIDATE,), (Side.RIGHT,))
NOTHING = Features(np.zeros((3, 4), np.float32), "fake", "1", "")


@pytest.mark.parametrize("features", [FEATURES, NOTHING])
def test_its_report_fits_the_schema(features: Features) -> None:
    jsonschema.validate(report_of(features), report_schema())


def test_it_says_what_the_candidates_say_and_always_the_same() -> None:
    drafter = FakeDrafter()
    answer = drafter.draft(FEATURES, "", "radiology")
    assert drafter.draft(FEATURES, "", "radiology") == answer
    lesion, effusion = parse(answer.text).findings
    assert (lesion.candidate, lesion.side, lesion.lobe, lesion.size_mm) == (1, "左肺", "上叶", 8)
    assert (effusion.kind, effusion.side) == ("胸腔积液", "右侧")
    assert answer.source.rung == "fake"


def test_failures_come_first_then_scripted_texts_then_reports() -> None:
    drafter = FakeDrafter(failures=[ServiceUnavailable("down")], texts=["{"])
    with pytest.raises(ServiceUnavailable):
        drafter.draft(FEATURES, "", "radiology")
    assert drafter.draft(FEATURES, "", "radiology").text == "{"
    assert parse(drafter.draft(FEATURES, "", "radiology").text).findings
    assert drafter.calls == 3
