"""The shipped fake drafter."""

from __future__ import annotations

from dataclasses import replace

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
EVERYTHING = Features(
    np.zeros((3, 4), np.float32),
    "fake",
    "1",
    "",
    (
        *(replace(CANDIDATE, index=number, margin="毛刺", calcified=True, retraction=True) for number in range(1, 8)),
        Candidate(8, "淋巴结", (10.0, 0.0, 0.0), Side.LEFT, None, None, 14.0, 0.9),
        *(Candidate(number, "囊肿", (-60.0, 0.0, -90.0), Side.RIGHT, None, None, 20.0, 0.9) for number in (6, 7, 8)),
    ),
    (),
    emphysema=(Side.LEFT, Side.RIGHT),
    fibrosis=(Side.LEFT,),
)
NOTHING = Features(np.zeros((3, 4), np.float32), "fake", "1", "")


@pytest.mark.parametrize("features", [FEATURES, EVERYTHING, NOTHING])
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


def test_it_says_all_that_can_be_found_and_no_more_than_the_schema_holds() -> None:
    report = parse(FakeDrafter().draft(EVERYTHING, "", "radiology").text)
    kinds = [(finding.kind, finding.side) for finding in report.findings]
    assert kinds == [*[("结节", "左肺")] * 6, ("淋巴结", "纵隔"), *[("肝囊肿", "肝脏")] * 2, ("肺气肿", "双侧"), ("纤维化", "左侧")]
    assert {(one.margin, one.internal, one.surround) for one in report.findings[:6]} == {("毛刺", "钙化", "胸膜牵拉")}
    assert "双侧肺气肿。左侧肺纤维化。" in report.findings_text
