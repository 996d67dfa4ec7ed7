"""Kernel names of five vendors."""

from __future__ import annotations

import pytest

from pipeline.flow.kernels import Sharpness, sharpness

SOFT, MEDIUM, SHARP, UNKNOWN = Sharpness.SOFT, Sharpness.MEDIUM, Sharpness.SHARP, Sharpness.UNKNOWN


@pytest.mark.parametrize(
    ("kernel", "description", "kind"),
    [
        ("B31f", "", SOFT),
        ("B45s", "", SOFT),
        ("B50f", "", MEDIUM),
        ("B70f", "", SHARP),
        ("Br40d\\3", "", SOFT),
        ("I31f\\2", "", SOFT),
        ("Br64", "", SHARP),
        ("Qr36", "", SOFT),
        ("STANDARD", "", SOFT),
        ("SOFT", "", SOFT),
        ("LUNG", "", SHARP),
        ("BONEPLUS", "", SHARP),
        ("DETAIL", "", MEDIUM),
        ("B", "", SOFT),
        ("D", "", MEDIUM),
        ("L", "", SHARP),
        ("FC08", "", SOFT),
        ("FC13-H", "", SOFT),
        ("FC30", "", SHARP),
        ("FC51", "", SHARP),
        ("B_SOFT_B", "", SOFT),
        ("B_VSHARP_C", "", SHARP),
        ("", "胸部 肺窗 1.0", SHARP),
        ("", "纵隔窗", SOFT),
        ("??", "", UNKNOWN),
        ("", "", UNKNOWN),
    ],
)
def test_what_a_name_means(kernel: str, description: str, kind: Sharpness) -> None:
    assert sharpness(kernel, description) is kind
