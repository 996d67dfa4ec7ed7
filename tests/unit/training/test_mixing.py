"""Mixed patients: proposals of several phantoms, each still what it was."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.drafting.schema import MAX_CANDIDATES, MAX_LIVER, MAX_NODES
from pipeline.training.mixing import Patients, Seen
from pipeline.training.phantom import Lesion, LiverLesion, Node
from pipeline.training.scene import scene, scene_of
from tests.unit.training.fake_views import PROPOSALS, fake_views

VIEWS = fake_views(64)
PATIENTS = Patients(VIEWS)


def mixed(seed: int) -> Seen:
    return PATIENTS.mixed(seed % 64, np.random.default_rng(seed))


def what(thing: object) -> tuple[object, ...]:
    return type(thing), *(getattr(thing, name, None) for name in ("kind", "side", "lobe", "density", "size_mm", "margin"))


def test_a_patient_as_it_is_reads_as_its_own_scene() -> None:
    for row in range(64):
        own = PATIENTS.own(row)
        assert scene_of(own.candidates, own.found, own.truth) == scene(VIEWS.candidates[row], VIEWS.truths[row])


def test_each_token_goes_with_its_proposal_and_its_truth() -> None:
    known = {VIEWS.features[row][one.index - 1].tobytes(): (row, one) for row in range(64) for one in VIEWS.candidates[row]}
    for seed in range(100):
        seen = mixed(seed)
        assert [one.index for one in seen.candidates] == list(range(1, len(seen.candidates) + 1))
        for one in seen.candidates:
            row, own = known[seen.features[one.index - 1].tobytes()]
            assert (one.kind, one.side, one.lobe, one.size_mm) == (own.kind, own.side, own.lobe, own.size_mm)
            assert what(seen.found.get(one.index)) == what(PATIENTS.own(row).found.get(own.index))  # tokens of two nodes can be the same


def test_the_largest_come_first_and_no_list_is_too_long() -> None:
    counts = set()
    for seed in range(300):
        seen = mixed(seed)
        sizes = [one.size_mm for one in seen.candidates]
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) <= MAX_CANDIDATES
        assert sum(isinstance(one, Node) for one in seen.found.values()) <= MAX_NODES
        assert sum(isinstance(one, LiverLesion) for one in seen.found.values()) <= MAX_LIVER
        counts.add(sum(isinstance(one, Lesion) for one in seen.found.values()))
    assert counts == set(range(7))


def test_sides_and_scan_stay_those_of_one_phantom_and_empty_places_stay_empty() -> None:
    for seed in range(50):
        seen, own = mixed(seed), PATIENTS.own(seed % 64)
        assert seen.truth is own.truth
        np.testing.assert_array_equal(seen.features[PROPOSALS:], own.features[PROPOSALS:])
        if len(seen.candidates) >= len(own.candidates):
            for place in range(len(seen.candidates), PROPOSALS):
                assert any(np.array_equal(seen.features[place], own.features[other]) for other in range(len(own.candidates), PROPOSALS))


@pytest.mark.parametrize("seed", range(3))
def test_the_same_draw_gives_the_same_patient(seed: int) -> None:
    one, other = mixed(seed), mixed(seed)
    assert one.candidates == other.candidates
    np.testing.assert_array_equal(one.features, other.features)
