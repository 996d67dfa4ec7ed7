"""Files of the flow benchmark: their archive names are known before they are sent."""

from __future__ import annotations

from pathlib import Path

from pydicom import dcmread

from pipeline.dicom.file_meta import file_meta
from pipeline.evaluation.flow_files import archive_name, noise_study


def test_a_study_has_so_many_images_of_a_patient_of_its_own(tmp_path: Path) -> None:
    one, other = noise_study(tmp_path / "1", 3), noise_study(tmp_path / "2", 2)
    read = [dcmread(file) for study in (one, other) for file in sorted(study.folder.iterdir())]
    assert [ds.StudyInstanceUID for ds in read] == [one.study_uid] * 3 + [other.study_uid] * 2
    assert len({ds.PatientID for ds in read}) == 2
    assert [int(ds.InstanceNumber) for ds in read] == [1, 2, 3, 1, 2]


def test_the_archive_name_is_that_of_our_group_2_and_the_same_data_set(tmp_path: Path) -> None:
    study = noise_study(tmp_path / "1", 1)
    (file,) = study.folder.iterdir()
    meta, body = dcmread(file).file_meta, file.read_bytes()
    kept = tmp_path / "kept.dcm"
    whole = file_meta(meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID, meta.TransferSyntaxUID)
    kept.write_bytes(whole + body[144 + int(meta.FileMetaInformationGroupLength) :])
    assert dcmread(kept) == dcmread(file)
    assert archive_name(kept) == archive_name(file)
