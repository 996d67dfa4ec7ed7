"""One compressed frame → its stored values. The decoders free the interpreter lock, so threads decode side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray
from pydicom.uid import JPEGBaseline8Bit, JPEGExtended12Bit, JPEGLossless, JPEGLosslessSV1, RLELossless

from pipeline.errors import Permanent
from pipeline.imaging.codestream import JPEG_2000, JPEG_LS, claim
from pipeline.imaging.stored import NEXT, Stored

Bits = NDArray[np.unsignedinteger[Any]]
Decode = Callable[[bytes], NDArray[np.generic]]

DECODERS: Mapping[str, Decode] = {
    **dict.fromkeys(JPEG_2000, imagecodecs.jpeg2k_decode),
    **dict.fromkeys(JPEG_LS, imagecodecs.jpegls_decode),
    **dict.fromkeys((JPEGBaseline8Bit, JPEGExtended12Bit, JPEGLossless, JPEGLosslessSV1), imagecodecs.jpeg8_decode),
}


def refuse_unknown(pixels: Stored) -> None:
    """Raises Permanent, naming the transfer syntax, where nothing here decodes it."""
    if pixels.compressed and pixels.syntax != RLELossless and pixels.syntax not in DECODERS:
        raise _undecodable(pixels)


def decoded(data: bytes, pixels: Stored) -> Bits:
    """Bits of one frame (rows, columns), unsigned and not yet masked. Raises Permanent where it cannot be decoded or is not what the header says."""
    refuse_unknown(pixels)
    if pixels.syntax == RLELossless:
        return _run_length(data, pixels)
    found = claim(data, pixels.syntax)
    if found is None:
        raise _damaged(pixels, "it does not begin as one")
    if (found.rows, found.columns, found.components) != (pixels.rows, pixels.columns, pixels.samples):
        raise _damaged(
            pixels, f"it holds {found.rows} × {found.columns} × {found.components}, not {pixels.rows} × {pixels.columns} × {pixels.samples}"
        )
    if not pixels.bits_stored <= found.precision <= pixels.bits_allocated:
        raise _damaged(pixels, f"it holds {found.precision} bits, not {pixels.bits_stored}")
    try:
        values = DECODERS[pixels.syntax](data)
    except (RuntimeError, ValueError, MemoryError, IndexError) as error:
        raise _damaged(pixels, type(error).__name__) from error
    if values.shape != (pixels.rows, pixels.columns) or values.dtype.kind not in "iu":
        raise _damaged(pixels, f"it decodes to {values.shape}")
    return np.asarray(values.view(f"u{values.dtype.itemsize}"))


def _run_length(data: bytes, pixels: Stored) -> Bits:
    """RLE (PS3.5 annex G)."""
    bits = f"<u{pixels.bits_allocated // 8}"
    try:
        values: Bits = np.frombuffer(imagecodecs.dicomrle_decode(data, bits), dtype=bits)
    except (RuntimeError, ValueError, MemoryError, IndexError) as error:
        raise _damaged(pixels, type(error).__name__) from error
    if values.size != pixels.rows * pixels.columns:
        raise _damaged(pixels, f"it holds {values.size} values, not {pixels.rows} × {pixels.columns}")
    return values.reshape(pixels.rows, pixels.columns)


def _undecodable(pixels: Stored) -> Permanent:
    name = pixels.syntax.name if pixels.syntax.is_transfer_syntax else "of a private or unknown kind"
    return Permanent(f"pixels in transfer syntax '{name}' cannot be decoded here; convert the series and send it again")


def _damaged(pixels: Stored, why: str) -> Permanent:
    return Permanent(f"a bit stream in transfer syntax '{pixels.syntax.name}' is not what its header says ({why}); {NEXT}")
