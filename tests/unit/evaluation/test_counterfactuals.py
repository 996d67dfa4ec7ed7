from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.evaluation.answering import Models, Task, case
from pipeline.evaluation.cases import HELD_OUT, drawn, volume_of
from pipeline.evaluation.counterfactuals import KINDS, changes, follow, found_lesions
from pipeline.model import Finding
from pipeline.training.phantom import Phantom
from tests.unit.evaluation.fakes import Edit, draft, faulty, heads_only, perfect, see

SEEDS = [seed for seed in range(HELD_OUT, HELD_OUT + 40) if drawn(seed).truth.lesions]


def shares(models: Models) -> dict[str, float]:
    answers = follow([case(Task(seed, changed=True), models) for seed in SEEDS])
    assert all(len(one) >= 5 for one in answers.values()), {what: len(one) for what, one in answers.items()}
    return {what: sum(one) / len(one) for what, one in answers.items()}


def every(**values: object) -> Edit:
    return lambda findings: [replace(one, **values) if one.kind in ("结节", "实变") else one for one in findings]  # type: ignore[arg-type]  # as the test says


def same_size(findings: list[Finding]) -> list[Finding]:
    return [replace(one, size_mm=12) if one.kind == "结节" else one for one in findings]


def dry(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if one.kind != "胸腔积液"]


def test_a_report_of_what_is_there_follows_every_change() -> None:
    assert shares(perfect()) == dict.fromkeys(KINDS, 1.0)
    assert shares(heads_only()) == dict.fromkeys(KINDS, 1.0)


@pytest.mark.parametrize(
    ("edit", "what", "most"),
    [(every(side="左肺", lobe="上叶"), "mirrored", 0.8), (every(density="实性"), "density", 0.9), (same_size, "larger", 0.0), (dry, "effusion", 0.0)],
)
def test_a_drafter_that_always_says_the_same_does_not_follow(edit: Edit, what: str, most: float) -> None:
    found = shares(faulty(edit))
    assert found[what] <= most
    assert all(share == 1.0 for other, share in found.items() if other != what)


def test_a_drafter_that_remembers_the_patient_does_not_follow() -> None:
    """It writes for each change what it wrote of the phantom before."""
    for seed in SEEDS[:5]:
        first = draft(see(drawn(seed)))
        features = see(drawn(seed))
        answers = follow([case(Task(seed, changed=True), Models(lambda phantom, kept=features: kept, lambda _, kept=first: kept))])  # type: ignore[misc]
        assert not any(followed for one in answers.values() for followed in one)


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_a_change_changes_one_thing_and_leaves_the_patient(seed: int) -> None:
    phantom = drawn(seed)
    for change in changes(phantom, range(len(phantom.truth.lesions))):
        assert _anatomy(change.phantom) == _anatomy(phantom)
        before, after = phantom.truth, change.phantom.truth
        if change.lesion is None:
            assert replace(after, effusion=before.effusion) == before
            assert len(after.effusion) == len(before.effusion) + 1
        else:
            assert replace(after, lesions=before.lesions) == before
            assert len({*before.lesions} ^ {*after.lesions}) == (1 if change.what == "removed" else 2)


def test_a_mirrored_lesion_lies_in_the_other_lung_and_in_the_lobe_that_its_truth_names() -> None:
    for seed in SEEDS:
        phantom = drawn(seed)
        for change in changes(phantom, range(len(phantom.truth.lesions))):
            if change.what == "mirrored" and change.lesion is not None:
                old, new = phantom.truth.lesions[change.lesion], change.phantom.truth.lesions[change.lesion]
                lung = next(one for one in phantom.lungs if one.side is new.side)
                assert old.side is not new.side
                assert new.lobe == lung.lobe_at(new.center_mm[1], new.center_mm[2])
                assert (new.center_mm[0] > 0) == (new.side == "左")


def test_the_changed_scan_is_the_same_scan_elsewhere() -> None:
    """Same noise, same anatomy: only voxels near the change differ."""
    phantom = next(one for one in map(drawn, SEEDS) if len(one.truth.lesions) > 1)
    before = volume_of(phantom).hu
    for change in changes(phantom, range(len(phantom.truth.lesions))):
        differs = volume_of(change.phantom).hu != before
        share = float(differs.mean())
        assert 0 < share < (0.1 if change.what == "effusion" else 0.02), change.what


def test_only_lesions_that_the_report_has_are_changed() -> None:
    def forgetful(findings: list[Finding]) -> list[Finding]:
        return [one for one in findings if one.candidate != 1 or one.kind not in ("结节", "实变")]

    for seed in SEEDS[:10]:
        one = case(Task(seed, changed=True), faulty(forgetful))
        found = found_lesions(one.plain)
        assert 0 not in found
        assert all(change.lesion is None or change.lesion in found for change in one.changed or ())


def _anatomy(phantom: Phantom) -> tuple[object, ...]:
    return phantom.anatomy, phantom.vessels.tobytes(), phantom.scan, phantom.noise_hu, phantom.truth.seed
