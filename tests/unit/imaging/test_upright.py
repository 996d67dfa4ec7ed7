from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Unsupported
from pipeline.imaging.upright import upright
from pipeline.imaging.volume import Acquisition, Volume

UPRIGHT = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])


def small(axes: np.ndarray) -> Volume:
    """A volume of three uneven slices, every voxel different."""
    return Volume(
        hu=np.arange(3 * 4 * 5, dtype=np.int16).reshape(3, 4, 5),
        spacing_mm=(2.0, 0.5, 0.75),
        along_mm=np.array([0.0, 2.0, 6.0]),
        origin_mm=(-10.0, 20.0, 30.0),
        axes=axes,
        sop_uids=("2.25.1", "2.25.2", "2.25.3"),
        acquisition=Acquisition(None, None, "", None),
        frames=(7, 8, 9),
    )


@given(st.tuples(*[st.sampled_from([-1.0, 1.0])] * 3), st.booleans())
def test_any_way_of_storing_comes_out_upright_with_each_voxel_at_its_place(signs: tuple[float, float, float], swapped: bool) -> None:
    axes = UPRIGHT * np.array(signs)[:, None]
    volume = small(axes[[0, 2, 1]] if swapped else axes)
    turned = upright(volume)
    np.testing.assert_array_equal(turned.axes, UPRIGHT)
    assert (np.diff(turned.along_mm) > 0).all()
    for z, y, x in np.ndindex(*turned.hu.shape):
        point = turned.to_patient(np.array([z, y, x], dtype=float))
        source = np.rint(volume.to_index(point)).astype(int)
        assert volume.hu[tuple(source)] == turned.hu[z, y, x]
        assert (volume.sop_uids[source[0]], volume.frames[source[0]]) == (turned.sop_uids[z], turned.frames[z])


def test_what_is_upright_already_stays_as_it_is() -> None:
    volume = small(UPRIGHT)
    assert upright(volume) is volume


def test_turning_takes_no_second_array() -> None:
    volume = small(-UPRIGHT)
    assert np.shares_memory(upright(volume).hu, volume.hu)


def test_frames_that_are_not_named_stay_so() -> None:
    assert upright(replace(small(-UPRIGHT), frames=())).frames == ()


def test_a_coronal_volume_is_refused() -> None:
    with pytest.raises(Unsupported, match="轴位"):
        upright(small(UPRIGHT[[1, 0, 2]]))
