from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.encoder.compact import DIM, TOKENS, WEIGHTS, CompactEncoder, nearest_slice
from pipeline.encoder.prepare import preparing
from pipeline.encoder.series import SeriesEncoder
from pipeline.errors import ModelMissing, Unsupported
from pipeline.evaluation.cases import mirrored, phantom_volume
from pipeline.evaluation.encoding import compact_encoder
from pipeline.imaging.volume import Volume
from pipeline.model import Features
from pipeline.settings import ImagingSettings
from pipeline.training.phantom import Truth
from pipeline.training.phantom_dicom import write_study

SEED = 900_216  # one nodule of 24 mm on the right


def packaged() -> SeriesEncoder:
    return SeriesEncoder(CompactEncoder.load(WEIGHTS), preparing(ImagingSettings()))


@pytest.fixture(scope="module")
def case() -> tuple[Volume, Truth, Features]:
    volume, truth = phantom_volume(SEED)
    return volume, truth, compact_encoder(WEIGHTS)(volume)


def test_features_have_one_fixed_shape_and_say_where_they_are_from(case: tuple[Volume, Truth, Features]) -> None:
    features = case[2]
    assert features.array.shape == (TOKENS, DIM)
    assert features.array.dtype == np.float32
    assert np.isfinite(features.array).all()
    assert features.encoder == "compact"
    assert len(features.version) >= 12


def test_a_large_nodule_is_proposed_at_its_place(case: tuple[Volume, Truth, Features]) -> None:
    volume, truth, features = case
    best = features.candidates[0]
    assert np.linalg.norm(np.subtract(best.center_mm, truth.lesions[0].center_mm)) < 8
    assert best.side is truth.lesions[0].side
    assert abs(best.size_mm - truth.lesions[0].size_mm) < 6
    along = volume.along_mm[volume.sop_uids.index(str(best.slice_sop_uid))] + volume.origin_mm[2]
    assert abs(along - best.center_mm[2]) <= volume.spacing_mm[0] / 2 + 1e-6


def test_candidates_are_numbered_by_falling_size(case: tuple[Volume, Truth, Features]) -> None:
    candidates = case[2].candidates
    assert [c.index for c in candidates] == list(range(1, len(candidates) + 1))
    sizes = [round(c.size_mm) for c in candidates]
    assert sizes == sorted(sizes, reverse=True)


def test_sides_follow_the_patient_when_the_volume_is_mirrored(case: tuple[Volume, Truth, Features]) -> None:
    volume, truth = mirrored(case[0], case[1])
    lesion = truth.lesions[0]
    nearest = min(compact_encoder(WEIGHTS)(volume).candidates, key=lambda c: math.dist(c.center_mm, lesion.center_mm))
    assert math.dist(nearest.center_mm, lesion.center_mm) < 10
    assert nearest.side is lesion.side is not case[1].lesions[0].side


def test_how_the_pixels_are_stored_changes_no_side(case: tuple[Volume, Truth, Features]) -> None:
    volume = case[0]
    last = volume.to_patient(np.array([0.0, 0.0, volume.hu.shape[2] - 1.0]))
    stored = replace(
        volume,
        hu=np.ascontiguousarray(volume.hu.astype(np.float32)[:, :, ::-1]),
        origin_mm=(float(last[0]), float(last[1]), float(last[2])),
        axes=volume.axes * np.array([[1.0], [1.0], [-1.0]]),
    )
    best = compact_encoder(WEIGHTS)(stored).candidates[0]
    assert best.side is case[2].candidates[0].side
    assert np.linalg.norm(np.subtract(best.center_mm, case[2].candidates[0].center_mm)) < 2


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    write_study(tmp_path / "study", SEED, localizer=False)
    paths = sorted((tmp_path / "study").glob("*.dcm"))
    for number in range(2):
        encoder = packaged()
        encoder.save_features(encoder.encode(paths[::-1] if number else paths), tmp_path / f"{number}.safetensors")
    assert (tmp_path / "0.safetensors").read_bytes() == (tmp_path / "1.safetensors").read_bytes()


def test_the_real_chest_is_encoded(test_data: Path) -> None:
    features = packaged().encode(sorted((test_data / "chest_lidc_0314").glob("*.dcm")))
    assert features.array.shape == (TOKENS, DIM)
    assert any("疑缺" in flag for flag in features.flags)
    assert all(candidate.slice_sop_uid for candidate in features.candidates)


def test_a_volume_without_lungs_is_unsupported(case: tuple[Volume, Truth, Features]) -> None:
    solid = replace(case[0], hu=np.maximum(case[0].hu, np.float32(0)))
    with pytest.raises(Unsupported, match="胸部"):
        compact_encoder(WEIGHTS)(solid)


def test_the_nearest_slice_is_named_beyond_the_ends_too(case: tuple[Volume, Truth, Features]) -> None:
    volume = case[0]
    assert nearest_slice(volume, np.array([0.0, 0.0, 999.0])) == (volume.sop_uids[-1], 1)
    assert nearest_slice(volume, np.array([0.0, 0.0, -999.0])) == (volume.sop_uids[0], 1)


@pytest.mark.parametrize("damage", ["absent", "cut", "no card", "one bit", "other net"])
def test_missing_or_foreign_weights_are_a_sentence(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "weights"
    shutil.copytree(WEIGHTS, folder)
    weights = folder / "compact.safetensors"
    if damage == "absent":
        weights.unlink()
    elif damage == "cut":
        weights.write_bytes(weights.read_bytes()[:1000])
    elif damage == "no card":
        (folder / "card.json").unlink()
    elif damage == "one bit":
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
    else:
        from safetensors.numpy import save_file

        save_file({"x": np.zeros(3, np.float32)}, weights)
    with pytest.raises(ModelMissing, match="CTREPORT_ENCODER_WEIGHTS"):
        CompactEncoder.load(folder)


def test_the_card_forbids_patients() -> None:
    assert json.loads((WEIGHTS / "card.json").read_text(encoding="utf-8"))["use"] == "phantom-only"


def test_features_are_made_anew_when_the_distance_is_calibrated_anew(tmp_path: Path) -> None:
    shutil.copytree(WEIGHTS, tmp_path / "weights")
    before = CompactEncoder.load(tmp_path / "weights").version
    (tmp_path / "weights" / "outlying.safetensors").unlink()
    assert CompactEncoder.load(tmp_path / "weights").version != before
    assert CompactEncoder.load(WEIGHTS).version == before
