"""Code extensions: as the standard writes them, and as devices forget them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dicom.escapes import KNOWN, decode_escaped
from pipeline.dicom.identity import repair

IR58 = ("", "ISO 2022 IR 58")
ZHANG = "Zhang^XiaoDong=张^小东"
GB = b"\x1b$)A"


@pytest.mark.parametrize(
    "raw",
    [
        b"Zhang^XiaoDong=\x1b$)A\xd5\xc5^\x1b$)A\xd0\xa1\xb6\xab",  # PS3.5 K.2
        b"Zhang^XiaoDong=\x1b$)A\xd5\xc5^\x1b$)A\xd0\xa1\xb6\xab= ",
        b"Zhang^XiaoDong=\x1b$)A\xd5\xc5^\xd0\xa1\xb6\xab",  # not repeated behind the delimiter
        b"\x1b$)AZhang^XiaoDong=\xd5\xc5^\xd0\xa1\xb6\xab",  # only once
        b"Zhang^XiaoDong=\x1b$)A\xd5\xc5\x1b(B^\x1b$)A\xd0\xa1\xb6\xab\x1b(B",  # with the way back
        b"Zhang^XiaoDong=\x1b$)A\xd5\xc5^\x1b$)A\xd0\xa1\xb6\xab\x1b$)",  # cut inside an escape
        b"Zhang^XiaoDong=\x1b$)A\xd5\xc5^\x1b$)A\xd0\xa1\xb6\xab\xd6",  # cut inside a character
        b"Zhang^XiaoDong=\x1b$A\x55\x45\x1b(B^\x1b$A\x50\x21\x36\x2b\x1b(B",  # in seven bits
    ],
)
def test_iso_2022_ir_58_in_every_way_of_writing_it(raw: bytes) -> None:
    assert repair(raw, "\\ISO 2022 IR 58") == (ZHANG, False, False, "ISO 2022 IR 58")
    assert repair(raw, "ISO_IR 100") == (ZHANG, True, False, "ISO 2022 IR 58")


def test_free_text_in_several_lines_and_with_characters_outside_gb_2312() -> None:
    lines = GB + "胸部平扫".encode("gb2312") + b"\r\n" + GB + "王喆".encode("gb18030")
    assert decode_escaped(lines, IR58, name=False) == ("胸部平扫\r\n王喆", ("ISO 2022 IR 58",), True)


def test_a_first_label_with_characters_of_its_own_comes_back_behind_a_delimiter() -> None:
    raw = b"\x1b$)C\xb1\xe8^M\xfcller"
    assert decode_escaped(raw, ("ISO 2022 IR 100", "ISO 2022 IR 149"), name=True).text == "김^Müller"


def test_scripts_may_change_inside_one_value() -> None:
    raw = b"\x1b-F\xc4\xe9\xef^\x1b-L\xbb\xee\xda=\x1b$)C\xb1\xe8"
    assert decode_escaped(raw, ("ISO 2022 IR 6",), name=True) == ("Διο^Люк=김", ("ISO 2022 IR 126", "ISO 2022 IR 144", "ISO 2022 IR 149"), True)


def test_a_missing_first_escape_and_an_unknown_one_are_not_exact() -> None:
    assert decode_escaped(b"\xd5\xc5^" + GB + b"\xd0\xa1", IR58, name=True) == ("张^小", ("ISO 2022 IR 58",), False)
    assert not decode_escaped(b"A\x1b%GB", IR58, name=True).exact


PIECES = st.one_of(st.sampled_from([*KNOWN, b"^", b"=", b"\\", b"\x1b"]), st.binary(max_size=6))


@given(
    st.lists(PIECES, max_size=12).map(b"".join), st.sampled_from([("",), IR58, ("ISO 2022 IR 13", "ISO 2022 IR 87"), ("ISO_IR 144",)]), st.booleans()
)
def test_no_bytes_raise(raw: bytes, labels: tuple[str, ...], name: bool) -> None:
    decode_escaped(raw, labels, name)
    assert "\x1b" not in repair(raw, labels, name).text
