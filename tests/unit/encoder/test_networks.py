"""Each published network, written to disk and read back by the code that reads real weights, computes what transformers computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.encoder.batching import Way
from pipeline.encoder.device import ON_CPU, Placement
from pipeline.encoder.medsam import GRID, MedSamEncoder
from pipeline.encoder.pictured import Look, PicturedEncoder
from pipeline.encoder.prepare import Prepared
from pipeline.encoder.published import load
from pipeline.encoder.structured import TOKENS, Structured
from pipeline.encoder.views import fitted, pictures, region_views, resized
from pipeline.errors import Transient
from pipeline.model import Side
from tests.unit.encoder.architectures import FULL, NARROW, publish
from tests.unit.encoder.studies import LEFT_BALL, prepared, without
from tests.unit.encoder.test_published import ENCODERS

NAMES = tuple(ENCODERS)
LOOK = Look(rois=2)


@dataclass
class Left:
    """A GPU with so much memory left."""

    mb: float

    def free_mb(self) -> float:
        return self.mb


def encoder(folder: Path, name: str, look: Look = LOOK, memory: Left | None = None) -> PicturedEncoder:
    kind = ENCODERS[name]
    return kind(load(str(folder), kind.kind, kind.default), ON_CPU, 1024, look, memory)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """Per name: a folder with narrow weights, and the whole model that was written there."""
    root = tmp_path_factory.mktemp("narrow")
    return {name: (root / name, publish(root / name, name, NARROW[name], pixels=64)) for name in NAMES}


def inputs(study: Prepared, zs: Sequence[int], size: int, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Whole slices as the network gets them, by transformers' own order of steps: resize, normalise, pad below and to the right."""
    volume = study.volume
    shape = fitted(volume.hu.shape[1], volume.hu.shape[2], volume.spacing_mm[1:], size)
    pixels = (resized(pictures(volume, zs, "windows"), shape) - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
    made = torch.zeros(len(zs), 3, size, size)
    made[:, :, : shape[0], : shape[1]] = pixels
    return made


def expected(name: str, model: Any, study: Prepared, size: int, mean: Sequence[float], std: Sequence[float]) -> NDArray[np.float32]:
    """The visual tokens by transformers' whole model with its head, and for SAM by the slow way of sampling."""
    with torch.inference_mode():
        if name == "medsam":
            views = region_views(study, LOOK.rois)
            grids = {z: _before_the_neck(model, inputs(study, [z], size, mean, std)) for z in {view.z for view in views}}
            return np.concatenate([_fourteen_by_fourteen(grids[view.z], study, view.box, size) for view in views])
        pixels = inputs(study, study.key_slices, size, mean, std)
        if name == "resnet50":
            made = model(pixels, output_hidden_states=True).hidden_states[-1].mean(dim=(2, 3))
        else:
            made = model.vit(pixels).last_hidden_state[:, 1:].mean(dim=1)
        return np.asarray(made.numpy())


def _before_the_neck(model: Any, pixels: Tensor) -> Tensor:
    seen = model.vision_encoder(pixels, output_hidden_states=True)
    assert torch.allclose(model.vision_encoder.neck(seen.hidden_states[-1]), seen.last_hidden_state, atol=1e-4)
    before: Tensor = seen.hidden_states[-1][0]
    return before


def _fourteen_by_fourteen(grid: Tensor, study: Prepared, box: Any, size: int) -> NDArray[np.float32]:
    """Each cell of a box through millimetres: its place in the slice, then in the picture, then among the patches."""
    volume = study.volume
    tall, wide = volume.hu.shape[1] * volume.spacing_mm[1], volume.hu.shape[2] * volume.spacing_mm[2]
    down_mm, across_mm = (side / round(size * side / max(tall, wide)) for side in (tall, wide))  # of one pixel of the picture
    patch = size // grid.shape[0]
    rows = []
    for row in range(GRID[0]):
        for column in range(GRID[1]):
            place = []
            for low, high, step, pixel_mm, number, cells in (
                (box.top, box.bottom, volume.spacing_mm[1], down_mm, row, grid.shape[0]),
                (box.left, box.right, volume.spacing_mm[2], across_mm, column, grid.shape[1]),
            ):
                from_edge_mm = (low + (number + 0.5) * (high - low) / 14 + 0.5) * step
                place.append(min(max(from_edge_mm / pixel_mm / patch - 0.5, 0.0), cells - 1.0))
            (y, x), (j, i) = place, (int(place[0]), int(place[1]))
            down, across = min(j + 1, grid.shape[0] - 1), min(i + 1, grid.shape[1] - 1)
            upper = grid[j, i] * (1 - (x - i)) + grid[j, across] * (x - i)
            lower = grid[down, i] * (1 - (x - i)) + grid[down, across] * (x - i)
            rows.append((upper * (1 - (y - j)) + lower * (y - j)).numpy())
    return np.stack(rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_narrow_network_gives_the_values_of_transformers(narrow: dict[str, tuple[Path, Any]], name: str) -> None:
    folder, model = narrow[name]
    size = 128 if name == "medsam" else 64
    study = prepared()
    [features] = encoder(folder, name).encode_prepared([study])
    visual = expected(name, model, study, size, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    regions = LOOK.rois if name == "medsam" else 0
    assert features.array.shape == (len(visual) + TOKENS + regions, 24)
    np.testing.assert_allclose(features.array[: len(visual)], visual, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["resnet50", "vit"])
def test_the_full_network_gives_the_values_of_transformers(tmp_path: Path, name: str) -> None:
    _check_full(tmp_path, name)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_full_sam_gives_the_values_of_transformers(tmp_path: Path) -> None:
    _check_full(tmp_path, "medsam")


def _check_full(folder: Path, name: str) -> None:
    model = publish(folder, name, FULL[name])
    study = prepared((LEFT_BALL, replace(LEFT_BALL, center_mm=(60.0, 30.0, 0.0))), key_slices=(6,))  # one slice, so one pass of SAM
    made = encoder(folder, name)
    [features] = made.encode_prepared([study])
    normal = ENCODERS[name].default
    visual = expected(name, model, study, normal.size, normal.mean, normal.std)
    assert made.dim == features.array.shape[1] == {"resnet50": 2048, "vit": 768, "medsam": 768}[name]
    assert len(visual) == {"resnet50": 1, "vit": 1, "medsam": 2 * 196}[name]
    scale = float(np.abs(visual).max())
    np.testing.assert_allclose(features.array[: len(visual)] / scale, visual / scale, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_behind_the_visual_tokens_stand_those_of_the_acquisition_and_the_sides(narrow: dict[str, tuple[Path, Any]], name: str) -> None:
    study = prepared()
    [features] = encoder(narrow[name][0], name, Look("regions", rois=3)).encode_prepared([study])
    channel = Structured.seeded(24)
    behind = torch.cat([channel.acquisition(study.volume.acquisition), channel.regions([Side.LEFT, Side.RIGHT, None])]).numpy()
    np.testing.assert_array_equal(features.array[-len(behind) :], behind)
    assert len(features.array) == 3 * (196 if name == "medsam" else 1) + TOKENS + 3


@pytest.mark.parametrize("name", NAMES)
def test_a_study_gives_the_same_bytes_in_any_company(narrow: dict[str, tuple[Path, Any]], name: str) -> None:
    studies = [prepared(seed=seed) for seed in range(3)]
    made = encoder(narrow[name][0], name)
    together = made.encode_prepared(studies)
    for study, features in zip(studies, together, strict=True):
        [alone] = encoder(narrow[name][0], name).encode_prepared([study])
        assert alone.array.tobytes() == features.array.tobytes()
    assert made.encode_prepared([]) == []


def test_features_say_which_weights_and_settings_made_them(narrow: dict[str, tuple[Path, Any]], tmp_path: Path) -> None:
    folder = narrow["vit"][0]
    plain = encoder(folder, "vit")
    [features] = plain.encode_prepared([prepared()])
    assert (features.encoder, features.version, features.preprocessing) == ("vit", plain.version, plain.preprocessing)
    looks = [Look(), Look("regions"), Look(channels="neighbours"), Look(rois=3)]
    assert len({encoder(folder, "vit", look).preprocessing for look in looks}) == 4
    publish(tmp_path, "vit", NARROW["vit"], seed=1)
    assert encoder(tmp_path, "vit").version != plain.version
    assert plain.card["structured"] == "untrained"
    Structured.seeded(24).save(tmp_path)
    with_tokens = encoder(tmp_path, "vit")
    assert with_tokens.card["structured"] == "trained"


def test_candidates_are_what_was_measured_and_nothing_else(narrow: dict[str, tuple[Path, Any]]) -> None:
    study = prepared()
    [features] = encoder(narrow["vit"][0], "vit").encode_prepared([study])
    first, second = features.candidates
    assert (first.index, first.kind, first.side, first.size_mm, first.score) == (1, "结节", Side.LEFT, 24.0, 0.9)
    assert (second.index, second.side, second.slice_sop_uid) == (2, Side.RIGHT, study.volume.sop_uids[8])
    assert {candidate.lobe for candidate in features.candidates} == {candidate.density for candidate in features.candidates} == {None}
    assert features.phantom_only


def test_the_acquisition_changes_its_token_only(narrow: dict[str, tuple[Path, Any]]) -> None:
    made = encoder(narrow["vit"][0], "vit")
    [plain], [other] = (made.encode_prepared([study]) for study in (prepared(), without(prepared(), kvp=None)))
    assert np.flatnonzero((plain.array != other.array).any(axis=1)).tolist() == [3 + 1]


def test_a_picture_of_sam_passes_once_for_all_of_its_boxes(narrow: dict[str, tuple[Path, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    made = encoder(narrow["medsam"][0], "medsam", Look(rois=4))
    passed: list[int] = []
    real = MedSamEncoder._outputs

    def counted(self: MedSamEncoder, network: Any, pixels: Tensor) -> Tensor:
        passed.append(len(pixels))
        return real(self, network, pixels)

    monkeypatch.setattr(MedSamEncoder, "_outputs", counted)
    regions = (LEFT_BALL, replace(LEFT_BALL, center_mm=(70.0, 20.0, 1.0)), replace(LEFT_BALL, center_mm=(-80.0, 20.0, 2.0)))
    [features] = made.encode_prepared([prepared(regions, key_slices=(6,))])
    assert passed == [1]
    assert len(features.array) == 4 * 196 + TOKENS + 4


def test_a_gpu_without_memory_leaves_a_study_to_the_processor(narrow: dict[str, tuple[Path, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pretended GPU: its passes run out of memory, and the copy on the processor gives the values that a processor gives."""
    folder = narrow["resnet50"][0]
    [plain] = encoder(folder, "resnet50").encode_prepared([prepared()])
    monkeypatch.setattr(Placement, "accelerator", property(lambda self: True))
    pretended = encoder(folder, "resnet50", memory=Left(80_000))
    real = PicturedEncoder._forward

    def full(self: PicturedEncoder, pixels: Tensor, way: Way) -> Tensor:
        if way is not Way.CPU:
            raise torch.OutOfMemoryError
        return real(self, pixels, way)

    monkeypatch.setattr(PicturedEncoder, "_forward", full)
    [features] = pretended.encode_prepared([prepared()])
    assert features.array.tobytes() == plain.array.tobytes()
    assert pretended.batch == 4


def test_a_gpu_that_others_fill_takes_one_study_or_none_until_they_leave(
    narrow: dict[str, tuple[Path, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Placement, "accelerator", property(lambda self: True))
    left = Left(80_000)
    made = encoder(narrow["resnet50"][0], "resnet50", memory=left)
    seen = []
    for left.mb in (80_000, 500, 10, 80_000):
        seen.append(made.batch)
    assert seen == [4, 1, 0, 4]


def test_no_memory_even_on_the_processor_is_worth_another_try(narrow: dict[str, tuple[Path, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: PicturedEncoder, pixels: Tensor, way: Way) -> Tensor:
        raise torch.OutOfMemoryError

    made = encoder(narrow["vit"][0], "vit")
    monkeypatch.setattr(PicturedEncoder, "_forward", never)
    with pytest.raises(Transient, match="no memory"):
        made.encode_prepared([prepared()])


@pytest.mark.parametrize("count", [50, pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def test_memory_is_flat_over_many_studies(narrow: dict[str, tuple[Path, Any]], count: int) -> None:
    made, process = encoder(narrow["vit"][0], "vit"), psutil.Process()
    studies = [prepared(seed=seed) for seed in range(2)]
    used = []
    for number in range(count):
        made.encode_prepared([studies[number % 2]])
        used.append(process.memory_info().rss)
    settled = used[count // 5 :]
    slope = float(np.polyfit(np.arange(len(settled)), settled, 1)[0])
    assert slope * count < 8e6, f"{slope:.0f} bytes a study"
