from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeline.training.lowdose import ct_noise, parenchyma, place, slab, thicken
from pipeline.training.phantom import draw

SHAPE, SPACING_MM = (4, 200, 280), (2.5, 1.2, 1.2)


@pytest.fixture(scope="module")
def normal() -> np.ndarray:
    rng = np.random.default_rng(4)
    phantom = replace(draw(4), effusion_mm={}, truth=replace(draw(4).truth, lesions=()))
    return slab(phantom, place(rng, (0.0, 0.0, 20.0), SHAPE, SPACING_MM), rng)


def test_a_slab_has_no_noise_but_small_vessels(normal: np.ndarray) -> None:
    lung = parenchyma(normal)
    assert 0.1 < lung.mean() < 0.5
    assert np.median(np.abs(np.diff(normal, axis=2))[lung[..., 1:]]) < 1.0


def test_the_lung_is_found_in_noise_too(normal: np.ndarray) -> None:
    noisy = normal + ct_noise(np.random.default_rng(0), normal.shape, 60.0, "B60f")
    lung, again = parenchyma(normal), parenchyma(noisy)
    assert 2 * (lung & again).sum() / (lung.sum() + again.sum()) > 0.95


@pytest.mark.parametrize("kernel", ["B30f", "B45f", "B60f"])
def test_noise_has_the_strength_that_was_asked_for(kernel: str) -> None:
    noise = ct_noise(np.random.default_rng(1), (3, 128, 128), 40.0, kernel)
    np.testing.assert_allclose(noise.std(axis=(1, 2)), 40.0, rtol=1e-3)


def test_sharper_kernels_have_finer_grain() -> None:
    def neighbours(kernel: str) -> float:
        noise = ct_noise(np.random.default_rng(2), (2, 128, 128), 1.0, kernel)
        return float((noise[..., 1:] * noise[..., :-1]).mean())

    assert neighbours("B30f") > neighbours("B45f") > neighbours("B60f")


def test_thickening_adds_lines_to_the_lung_and_nothing_elsewhere(normal: np.ndarray) -> None:
    grid = place(np.random.default_rng(4), (0.0, 0.0, 20.0), SHAPE, SPACING_MM)
    little, much = normal.copy(), normal.copy()
    thicken(little, grid, np.random.default_rng(5), 0.1)
    thicken(much, grid, np.random.default_rng(5), 0.6)
    assert (little >= normal).all()
    assert 0 < (little > normal + 50).mean() < (much > normal + 50).mean()
    np.testing.assert_array_equal(much[normal > -600], normal[normal > -600])


def test_a_slab_without_lung_is_left_alone() -> None:
    hu = np.full((3, 20, 20), 40.0, dtype=np.float32)
    grid = place(np.random.default_rng(0), (0.0, 0.0, 0.0), (3, 20, 20), SPACING_MM)
    thicken(hu, grid, np.random.default_rng(0), 1.0)
    assert (hu == 40.0).all()
