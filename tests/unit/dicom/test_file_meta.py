"""Group 2, built by hand."""

from __future__ import annotations

from io import BytesIO

import pytest
from pydicom import dcmread
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_file_meta_info
from pydicom.uid import UID, CTImageStorage, ExplicitVRLittleEndian, JPEG2000Lossless

from pipeline.dicom.file_meta import file_meta


@pytest.mark.parametrize("sop_uid", ["1.2.3", "1.2.34"])
@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, JPEG2000Lossless])
def test_it_equals_what_pydicom_writes(sop_uid: str, syntax: UID) -> None:
    made = file_meta(CTImageStorage, sop_uid, syntax)
    read = dcmread(BytesIO(made)).file_meta
    assert (read.MediaStorageSOPClassUID, read.MediaStorageSOPInstanceUID, read.TransferSyntaxUID) == (CTImageStorage, sop_uid, syntax)
    buffer = DicomBytesIO()
    write_file_meta_info(buffer, read)
    assert made == bytes(128) + b"DICM" + buffer.getvalue()
    assert UID(read.ImplementationClassUID).is_valid
