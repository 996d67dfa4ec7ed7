from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydicom import dcmread

from pipeline.encoder.prepare import Prepared, Preparing
from pipeline.encoder.series import SeriesEncoder
from pipeline.errors import BadInput, ServiceUnavailable, Unsupported
from pipeline.model import Features
from pipeline.training.phantom_dicom import write_study
from tests.builders import ct_series, write


class Counting:
    """A network whose features say how many studies it has seen."""

    name, version, preprocessing, dim, phantom_only, batch = "counting", "v1", "p1", 2, True, 4

    def __init__(self) -> None:
        self.calls: list[int] = []

    def encode_prepared(self, studies: Sequence[Prepared]) -> list[Features]:
        self.calls.append(len(studies))
        return [Features(np.full((1, 2), n, np.float32), self.name, self.version, "") for n, _ in enumerate(studies)]


@pytest.fixture(scope="module")
def chest(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("chest") / "study"
    write_study(folder, 17, localizer=False)
    return sorted(folder.glob("*.dcm"))


def test_a_bad_study_spoils_no_other_and_answers_keep_their_order(chest: list[Path], tmp_path: Path) -> None:
    network = Counting()
    without_lungs = write(tmp_path / "flat", ct_series(12))
    unreadable = tmp_path / "rubbish.dcm"
    unreadable.write_bytes(b"no DICOM")
    answers = SeriesEncoder(network, Preparing()).encode_many([without_lungs, chest, [unreadable], chest])
    assert network.calls == [2]
    assert isinstance(answers[0], Unsupported)
    assert isinstance(answers[2], BadInput)
    assert [int(answer.array[0, 0]) for answer in answers if isinstance(answer, Features)] == [0, 1]


def test_no_readable_study_costs_no_pass(tmp_path: Path) -> None:
    network = Counting()
    assert isinstance(SeriesEncoder(network, Preparing()).encode_many([write(tmp_path, ct_series(12))])[0], Unsupported)
    assert network.calls == []


def test_a_passing_failure_concerns_the_whole_batch(chest: list[Path]) -> None:
    class Away(Counting):
        def encode_prepared(self, studies: Sequence[Prepared]) -> list[Features]:
            raise ServiceUnavailable("the GPU is away")

    with pytest.raises(ServiceUnavailable):
        SeriesEncoder(Away(), Preparing()).encode_many([chest])


def test_a_study_that_the_network_refuses_spoils_no_other(chest: list[Path]) -> None:
    """The compact encoder wants more lung than the lungs' finder: what it says of one is said of one."""

    class Picky(Counting):
        def encode_prepared(self, studies: Sequence[Prepared]) -> list[Features]:
            if any(study.volume.acquisition.kernel == "B99" for study in studies):
                raise Unsupported("容积内未找到双肺")
            return super().encode_prepared(studies)

    network = Picky()
    encoder = SeriesEncoder(network, Preparing())
    odd = chest[0].parent / "odd"
    odd.mkdir()
    for path in chest:
        ds = dcmread(path)
        ds.ConvolutionKernel = "B99"
        ds.save_as(odd / path.name)
    answers = encoder.encode_many([chest, sorted(odd.iterdir()), chest])
    assert [type(answer) for answer in answers] == [Features, Unsupported, Features]


def test_features_made_under_a_live_card_are_not_those_of_a_phantom_only_one() -> None:
    class Live(Counting):
        phantom_only = False

    assert SeriesEncoder(Live(), Preparing()).identity != SeriesEncoder(Counting(), Preparing()).identity


def test_features_say_what_was_seen_beside_the_network(chest: list[Path]) -> None:
    features = SeriesEncoder(Counting(), Preparing(key_slices=5)).encode(chest)
    assert features.preprocessing
    assert {"肺", "心脏"} <= set(features.covers)
    assert features.noise_hu is not None
    assert 0 < features.noise_hu < 100
    assert not features.denoised
    assert len(features.key_slices) == 5


def test_the_frame_of_the_lungs_makes_places_comparable_with_another_examination(chest: list[Path]) -> None:
    frame = SeriesEncoder(Counting(), Preparing()).encode(chest).frame
    assert frame is not None
    x0, y0, z0, x1, y1, z1 = frame.lungs_mm
    assert x0 < frame.midline_mm < x1
    assert 150 < x1 - x0 < 450
    assert 80 < y1 - y0 < 350
    assert 80 < z1 - z0 < 400
    assert frame.step_mm > 0
    assert frame.thickness_mm > 0


@pytest.mark.parametrize("other", [Preparing(tilt="refuse"), Preparing(key_slices=8)])
def test_another_preparation_is_another_identity(other: Preparing) -> None:
    assert SeriesEncoder(Counting(), Preparing()).identity == SeriesEncoder(Counting(), Preparing()).identity
    assert SeriesEncoder(Counting(), other).identity != SeriesEncoder(Counting(), Preparing()).identity


def test_other_weights_are_another_identity() -> None:
    trained = Counting()
    trained.version = "v2"
    assert SeriesEncoder(trained, Preparing()).identity != SeriesEncoder(Counting(), Preparing()).identity


def test_how_many_threads_decode_changes_no_identity() -> None:
    assert replace(Preparing(), workers=3).digest == Preparing().digest
