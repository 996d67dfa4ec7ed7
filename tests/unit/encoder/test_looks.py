from __future__ import annotations

import numpy as np
import torch

from pipeline.encoder.compact import PROPOSALS, distinct, told_order, windowed
from pipeline.encoder.looks import fine_offsets, looks_into
from pipeline.encoder.net import FINE
from pipeline.imaging.volume import Acquisition, Volume

CENTER = np.array([10.0, -20.0, 30.0])


def volume(turn: int = 1) -> Volume:
    """1 HU per mm along each axis from CENTER: x, 10·y and 100·z, stored either way round."""
    z, y, x = (np.arange(n, dtype=np.float64) * step for n, step in ((30, 4.0), (60, 1.5), (60, 1.5)))
    hu = (100 * z)[:, None, None] + (10 * y)[None, :, None] + x[None, None, :]
    axes = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    origin = CENTER - np.array([x.mean(), y.mean(), z.mean()])
    if turn < 0:
        hu, axes[2], origin = hu[:, :, ::-1], -axes[2], origin + np.array([x[-1], 0, 0])
    return Volume(
        hu=np.ascontiguousarray(hu).astype(np.float32),
        spacing_mm=(4.0, 1.5, 1.5),
        along_mm=z,
        origin_mm=(float(origin[0]), float(origin[1]), float(origin[2])),
        axes=axes,
        sop_uids=tuple(str(n) for n in range(30)),
        acquisition=Acquisition(120.0, 100.0, "B30f", 4.0),
    )


def test_a_look_has_its_steps_in_patient_coordinates_however_pixels_are_stored() -> None:
    z, y, x = fine_offsets()
    there = looks_into(volume())(CENTER[None])
    assert there.shape == (1, *FINE)
    middle = float(there[0, FINE[0] // 2].mean())
    expected = middle + (100 * z)[:, None, None] + (10 * y)[None, :, None] + x[None, None, :]
    np.testing.assert_allclose(there[0], expected, atol=0.05)
    np.testing.assert_allclose(looks_into(volume(-1))(CENTER[None]), there, atol=0.05)


def test_beyond_the_scan_the_border_repeats() -> None:
    far = looks_into(volume())(CENTER[None] + np.array([[0.0, 0.0, 500.0]]))
    assert np.isfinite(far).all()
    np.testing.assert_allclose(far[0, 0], far[0, -1], atol=1e-3)


def test_windows_come_first_and_lie_between_0_and_1() -> None:
    made = windowed(np.array([[-2000.0, -700.0, 40.0, 4000.0]], dtype=np.float32))
    assert made.shape == (4, 1, 4)
    assert float(made.min()) == 0.0
    assert float(made.max()) == 1.0


def test_two_peaks_of_one_lesion_are_one_proposal() -> None:
    points = np.array([[0.0, 0, 0], [12.0, 0, 0], [40.0, 0, 0]])
    torch.testing.assert_close(distinct(points, [0.9, 0.8, 0.7], [30.0, 10.0, 10.0]), torch.tensor([1.0, 0.0, 1.0]))
    torch.testing.assert_close(distinct(points, [0.8, 0.9, 0.7], [30.0, 10.0, 10.0]), torch.tensor([1.0, 1.0, 1.0]))


def test_the_surest_are_told_the_largest_first_and_what_counts_as_nothing_last() -> None:
    scores = torch.tensor([0.0, 0.9, 0.99, 0.7, 0.0, 0.8, 0.95, 0.91, 0.92, 0.93])
    sizes = torch.tensor([60.0, 8.0, 12.4, 40.0, 50.0, 9.0, 12.1, 30.0, 7.0, 20.0])
    assert told_order(scores, sizes).tolist() == [3, 7, 9, 2, 6, 5, 1, 8]
    assert told_order(scores[:5], sizes[:5]).tolist() == [3, 2, 1, 0, 4]
    assert len(told_order(torch.rand(30), torch.rand(30))) == PROPOSALS
