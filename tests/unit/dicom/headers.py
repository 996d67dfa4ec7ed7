"""Small header values for tests."""

from __future__ import annotations

from pipeline.model import Header, Instance, Patient


def header(sop_uid: str = "1.2.3", sha256: str = "ab" * 32, path: str = "objects/ab/ab/x.dcm", flags: tuple[str, ...] = ()) -> Header:
    """The header of one CT image."""
    instance = Instance(sop_uid, "1.2.840.10008.5.1.4.1.1.2", "1.2.840.10008.1.2", "1.2", "1.2.1", "CT", sha256, 10, path, flags=flags)
    patient = Patient("P1", "", "张^小东", False, None, "")
    return Header(instance, patient, "", None, "", "", "", "", "", None, "")
