from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from pipeline.encoder.choice import network
from pipeline.encoder.device import placement
from pipeline.encoder.prepare import Preparing
from pipeline.encoder.series import SeriesEncoder
from pipeline.errors import ModelMissing
from pipeline.settings import EncoderSettings
from tests.unit.encoder.architectures import NARROW, publish

PUBLISHED = ("resnet50", "vit", "medsam")


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    placement.cache_clear()
    yield
    placement.cache_clear()


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_named_network_is_loaded_from_the_named_folder(tmp_path: Path, name: Literal["resnet50", "vit", "medsam"]) -> None:
    publish(tmp_path, name, NARROW[name], use="live")
    made = network(EncoderSettings(name=name, weights=str(tmp_path), device="cpu"))
    assert (made.name, made.dim, made.phantom_only) == (name, 24, False)


def test_the_packaged_encoder_is_the_default() -> None:
    made = network(EncoderSettings(name="compact", weights=None))
    assert (made.name, made.dim, made.phantom_only) == ("compact", 160, True)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_networks_need_weights(name: Literal["resnet50", "vit", "medsam"]) -> None:
    with pytest.raises(ModelMissing, match=f"CTREPORT_ENCODER_NAME is {name} .* set CTREPORT_ENCODER_WEIGHTS"):
        network(EncoderSettings(name=name, weights=None))


def test_a_missing_folder_is_named_and_a_missing_gpu_too(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="'none' does not exist"):
        network(EncoderSettings(name="vit", weights=str(tmp_path / "none")))
    publish(tmp_path, "vit", NARROW["vit"])
    with pytest.raises(ModelMissing, match="finds no GPU"):
        network(EncoderSettings(name="vit", weights=str(tmp_path), device="cuda"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_real_chest_is_encoded_from_its_files(tmp_path: Path, test_data: Path, name: Literal["resnet50", "vit", "medsam"]) -> None:
    publish(tmp_path, name, NARROW[name])
    encoder = SeriesEncoder(network(EncoderSettings(name=name, weights=str(tmp_path), device="cpu", rois=2)), Preparing(key_slices=8))
    features = encoder.encode(sorted((test_data / "chest_lidc_0314").glob("*.dcm")))
    assert features.array.shape == ((2 * 196 + 8 + 2, 24) if name == "medsam" else (8 + 8, 24))
    assert np.isfinite(features.array).all()
    assert len(features.key_slices) == 8
    assert all(candidate.slice_sop_uid for candidate in features.candidates)
