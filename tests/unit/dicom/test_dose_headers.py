"""Dose estimated from image headers: once per acquisition, never from what is absurd."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydicom import dcmread

from pipeline.dicom.dose_headers import ESTIMATED, read_header_dose
from pipeline.irradiation import DoseSource
from tests import builders


def images(folder: Path, count: int = 12, series: str = "series", **keywords: object) -> list[Path]:
    slices = builders.ct_series(count, series=series)
    for ds in slices:
        ds.CTDIvol = 8.0
        for keyword, value in keywords.items():
            setattr(ds, keyword, value)
    return builders.write(folder, slices)


def test_ctdivol_times_the_covered_length(tmp_path: Path) -> None:
    found = read_header_dose(images(tmp_path))
    assert found is not None
    (event,) = found.events
    assert event.dlp_mgy_cm == pytest.approx(8.0 * 6.0)  # 12 slices of 5 mm
    assert (event.source, event.region, event.ctdivol_mgy, event.kvp, event.notes) == (DoseSource.HEADER, "chest", 8.0, 120.0, (ESTIMATED,))
    assert (found.study_uid, found.patient.patient_id) == (builders.uid_of("study"), "P-1")


def test_the_order_of_the_files_changes_nothing(tmp_path: Path) -> None:
    paths = images(tmp_path)
    assert read_header_dose(paths) == read_header_dose(paths[::-1])


def test_two_reconstructions_of_one_acquisition_are_one_event(tmp_path: Path) -> None:
    both = read_header_dose([*images(tmp_path / "a"), *images(tmp_path / "b", series="lung")])
    assert both is not None
    assert [event.dlp_mgy_cm for event in both.events] == [pytest.approx(48.0)]


def test_two_acquisitions_are_two_events_under_their_own_uids(tmp_path: Path) -> None:
    uids = [builders.uid_of("event", n) for n in (1, 2)]
    paths = [*images(tmp_path / "a", IrradiationEventUID=uids[0]), *images(tmp_path / "b", series="b", IrradiationEventUID=uids[1])]
    both = read_header_dose(paths)
    assert both is not None
    assert sorted(event.event_uid for event in both.events) == sorted(uids)


def test_a_long_series_is_sampled_and_still_covers_its_length(tmp_path: Path) -> None:
    found = read_header_dose(images(tmp_path, 200))
    assert found is not None
    assert found.events[0].dlp_mgy_cm == pytest.approx(8.0 * 100.0, rel=0.02)


@pytest.mark.parametrize("ctdivol", [0.0, -1.0, float("nan"), float("inf"), 1e6])
def test_an_absurd_ctdivol_is_no_estimate(tmp_path: Path, ctdivol: float) -> None:
    assert read_header_dose(images(tmp_path, 4, CTDIvol=ctdivol)) is None


def test_files_that_say_nothing_or_are_none_give_no_estimate(tmp_path: Path) -> None:
    silent = builders.write(tmp_path / "silent", builders.ct_series(4))
    (tmp_path / "junk.dcm").write_bytes(b"junk")
    assert read_header_dose(silent) is None
    assert read_header_dose([tmp_path / "junk.dcm", tmp_path / "gone.dcm"]) is None
    assert read_header_dose([]) is None


def test_a_broken_slice_costs_itself_only(tmp_path: Path) -> None:
    paths = images(tmp_path)
    paths[1].write_bytes(paths[1].read_bytes()[:200])
    found = read_header_dose(paths)
    assert found is not None
    assert found.events[0].dlp_mgy_cm == pytest.approx(48.0, rel=0.02)


def test_images_at_one_place_cover_their_thickness(tmp_path: Path) -> None:
    found = read_header_dose(images(tmp_path, 1))
    assert found is not None
    assert found.events[0].dlp_mgy_cm == pytest.approx(4.0)


def test_a_time_of_each_slice_makes_no_slice_an_acquisition_and_one_of_each_acquisition_tells_them_apart(tmp_path: Path) -> None:
    whole = read_header_dose(images(tmp_path / "whole", 200))
    paths = images(tmp_path / "timed", 200)
    for number, path in enumerate(paths):
        ds = dcmread(path)
        ds.AcquisitionDateTime = f"20260115080000.{number:06d}"
        ds.save_as(path)
    timed = read_header_dose(paths)
    assert whole is not None
    assert timed is not None
    assert [event.dlp_mgy_cm for event in timed.events] == pytest.approx([event.dlp_mgy_cm for event in whole.events])
    two = [*images(tmp_path / "a", AcquisitionDateTime="20260115080000"), *images(tmp_path / "b", series="b", AcquisitionDateTime="20260115080500")]
    phases = read_header_dose(two)
    assert phases is not None
    assert len(phases.events) == 2
