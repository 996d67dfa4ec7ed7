"""Each department reads a lesion in its own words and within its own length."""

from __future__ import annotations

from itertools import product

import pytest

from pipeline.drafting.departments import NAMES, TOKENS_PER_LESION
from pipeline.drafting.schema import dumps
from pipeline.model import Candidate, Side
from pipeline.rules.length import LONGEST_TOKENS, estimated_tokens
from pipeline.training.corpus import pair, report, spaceless
from pipeline.training.departments import VOICES
from pipeline.training.phantom import Lesion, LiverLesion, Node, draw
from pipeline.training.reasons import Reason
from pipeline.training.scene import Said, Scene
from pipeline.training.words import make_tokenizer

TOKENIZER = make_tokenizer()
NODULES = [
    Said(1, "结节", "右肺", "中叶", density, size, margin, calcified, retraction)
    for density, size, margin, calcified, retraction in product(
        ("实性", "磨玻璃", "部分实性"), (5, 12, 40), ("光滑", "分叶", "毛刺"), (False, True), (False, True)
    )
]
LESIONS = [*NODULES, Said(1, "实变", "左肺", "下叶", "实性", 120, "模糊")]


def sentences(department: str) -> list[str]:
    """What is said of every kind of lesion, at every place of the list, for every reason."""
    scenes = [Scene(lesions=(lesion,), reason=reason) for lesion in LESIONS for reason in Reason]
    return [spaceless(VOICES[department].lesion(scene.lesions[0], place, scene)) for scene in scenes for place in (0, 1, 2)]


@pytest.mark.parametrize("department", NAMES)
def test_the_text_about_a_lesion_fits_the_departments_length(department: str) -> None:
    most = TOKENS_PER_LESION[department]
    assert most == LONGEST_TOKENS[department]
    texts = set(sentences(department))
    assert max(len(TOKENIZER.encode(text)) for text in texts) <= most
    assert max(estimated_tokens(text) for text in texts) <= most  # by the served models' tokenizer, too


@pytest.mark.parametrize("department", NAMES)
def test_a_lesions_sentence_stands_in_the_description(department: str) -> None:
    scene = Scene(lesions=tuple(NODULES[:3]))
    text = report(scene, department)["检查所见"]["描述"]
    assert all(spaceless(VOICES[department].lesion(lesion, place, scene)) in text for place, lesion in enumerate(scene.lesions))


def test_oncology_names_malignant_signs_and_what_staging_rests_on() -> None:
    lesion = Said(1, "结节", "右肺", "上叶", "实性", 22, "分叶", retraction=True)
    text = report(Scene(lesions=(lesion,), effusion="左侧"), "oncology")["检查所见"]["描述"]
    assert "恶性征象：分叶征、胸膜牵拉" in text
    assert "分期依据：肺内最大径22mm，纵隔淋巴结不大，左侧胸腔积液。" in text
    assert "未见分叶征、毛刺征及胸膜牵拉" in report(Scene(lesions=(NODULES[0],)), "oncology")["检查所见"]["描述"]


def test_pulmonology_gives_size_risk_and_follow_up() -> None:
    lesion = Said(1, "结节", "右肺", "上叶", "磨玻璃", 8)
    assert "右肺上叶磨玻璃结节，8mm，中危，6个月复查。" in report(Scene(lesions=(lesion,)), "pulmonology")["检查所见"]["描述"]


def test_no_department_says_more_than_radiology() -> None:
    lengths = {department: sum(map(len, sentences(department))) for department in NAMES}
    assert lengths["radiology"] > lengths["oncology"] > lengths["pulmonology"]


@pytest.mark.parametrize("department", NAMES)
def test_a_report_has_80_to_320_tokens(department: str) -> None:
    """Of phantoms as they are drawn for training; one in fifty with four lesions and more besides may be longer."""
    lengths = []
    for seed in range(120):
        truth = draw(90_000_000 + seed).truth
        things: list[Lesion | Node | LiverLesion] = [*truth.lesions, *truth.nodes, *truth.liver]
        seen = [candidate(number, thing) for number, thing in enumerate(things[:8], 1)]
        lengths.append(len(TOKENIZER.encode(dumps(pair(seen, truth, department, list(Reason)[seed % len(Reason)])))))
    assert min(lengths) >= 80
    assert sum(length > 320 for length in lengths) <= 3


def candidate(index: int, thing: Lesion | Node | LiverLesion) -> Candidate:
    return Candidate(index, "结节", thing.center_mm, Side.LEFT, None, None, thing.size_mm, 0.9)
