"""Which copies of an object store's content stay on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pipeline.dicom.cache import Copies, Copy, over

COPIES = st.lists(st.tuples(st.integers(0, 100), st.integers(1, 50)), max_size=30)


@given(COPIES, st.integers(0, 500), st.integers(0, 100))
def test_what_goes_is_the_longest_unused_and_no_more_than_it_takes(sizes: list[tuple[int, int]], limit: int, before: int) -> None:
    copies = sorted(Copy(float(used), size, Path(f"{number}")) for number, (used, size) in enumerate(sizes))
    gone = over(copies, limit, float(before))
    assert gone == copies[: len(gone)]
    assert all(copy.used < before for copy in gone)
    kept = copies[len(gone) :]
    assert sum(copy.size_bytes for copy in kept) <= limit or not kept or kept[0].used >= before
    if gone:
        assert sum(copy.size_bytes for copy in copies[len(gone) - 1 :]) > limit


def test_a_copy_in_use_stays_however_full_the_folder_is(tmp_path: Path) -> None:
    for name, used in (("old.dcm", 100), ("used.dcm", 5_000)):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (used, used))
    copies = Copies((tmp_path,), 1, keep_s=1_000, now=lambda: 5_500.0)
    assert copies.trim() == 1
    assert [file.name for file in tmp_path.iterdir()] == ["used.dcm"]


def test_reading_a_copy_keeps_it_and_new_ones_bring_the_trim(tmp_path: Path) -> None:
    for name in ("a.dcm", "b.dcm"):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (100, 100))
    copies = Copies((tmp_path, tmp_path / "missing"), 120)
    copies.used(tmp_path / "a.dcm")
    copies.used(tmp_path / "gone.dcm")
    copies.grew(1)
    assert len(list(tmp_path.iterdir())) == 2, "a sixteenth of the limit has not come yet"
    copies.grew(8)
    assert [file.name for file in tmp_path.iterdir()] == ["a.dcm"]
