"""Stored values → HU, in place, in the array that is handed on: no slice is copied more than once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from pydicom.encaps import generate_frames

from pipeline.errors import Permanent, UnreadableDicom
from pipeline.imaging.decoders import Bits, decoded, refuse_unknown
from pipeline.imaging.frames import Frame, Rescale, padding_of, rescale_of
from pipeline.imaging.header import DAMAGED, GONE, NEXT, inflated
from pipeline.imaging.stored import Stored

AIR_HU = -1024
LARGEST = 32767  # of int16
MOST_WORKERS = 8

Hu = NDArray[np.int16] | NDArray[np.float32]
Slice = tuple[int, "Conversion", bytes | None]  # z, how, compressed bytes that have been read already


class _TooLarge(Exception):  # no error: the way in which one thread says that int16 does not hold its HU
    """An HU above 32767."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """How one frame's bits become HU."""

    pixels: Stored
    number: int
    rescale: Rescale
    padding: tuple[int, int] | None


def conversion(frame: Frame) -> Conversion:
    """How a frame becomes HU. Raises Unsupported where it does not, Permanent where nothing decodes it."""
    assert frame.pixels is not None
    refuse_unknown(frame.pixels)
    return Conversion(frame.pixels, frame.number, rescale_of(frame), padding_of(frame))


def hounsfield(frames: Sequence[Frame], workers: int | None = None) -> Hu:
    """HU (Z, Y, X) of frames of one matrix, int16 where every slope and intercept is whole and the values fit, else float32.

    Padding, and what scanners mark as outside their field of view (−2000, −3024), is −1024. Raises Permanent, UnreadableDicom or Unsupported.
    """
    how = [conversion(frame) for frame in frames]
    shape = (len(how), how[0].pixels.rows, how[0].pixels.columns)
    if all(one.rescale.whole for one in how):
        try:
            return _filled(np.empty(shape, dtype=np.int16), how, workers)
        except _TooLarge:
            pass
    return _filled(np.empty(shape, dtype=np.float32), how, workers)


def _filled(out: Hu, how: Sequence[Conversion], workers: int | None) -> Hu:
    """Every slice in its row; decoders and reads run beside each other."""
    threads = max(1, min(workers or os.cpu_count() or 1, MOST_WORKERS, len(how)))
    jobs = list(_jobs(how))
    if threads == 1:
        _work(out, jobs)
        return out
    with ThreadPoolExecutor(threads) as pool:
        for part in [pool.submit(_work, out, jobs[first::threads]) for first in range(threads)]:
            part.result()
    return out


def _jobs(how: Sequence[Conversion]) -> Iterator[Slice]:
    """Slices of single-frame files and of uncompressed ones are read where they are converted; a compressed multi-frame file is gone through once."""
    several = [(z, one) for z, one in enumerate(how) if one.pixels.compressed and one.pixels.frames > 1]
    yield from ((z, one, None) for z, one in enumerate(how) if not (one.pixels.compressed and one.pixels.frames > 1))
    for _, group in groupby(sorted(several, key=lambda job: str(job[1].pixels.path)), key=lambda job: job[1].pixels.path):
        wanted = {one.number: (z, one) for z, one in group}
        pixels = next(iter(wanted.values()))[1].pixels
        for number, data in enumerate(_frames(pixels), start=1):
            if number in wanted:
                yield (*wanted.pop(number), data)
        if wanted:
            raise UnreadableDicom(f"{GONE}: its frames end before frame {min(wanted)}; {NEXT}")


def _frames(pixels: Stored) -> Iterator[bytes]:
    """Bit streams of an encapsulated file, in order (PS3.5 A.4)."""
    try:
        yield from generate_frames(_bytes(pixels, pixels.offset, pixels.file_bytes - pixels.offset), number_of_frames=pixels.frames)
    except DAMAGED as error:
        raise UnreadableDicom(f"{GONE}: its fragments are damaged ({type(error).__name__}); {NEXT}") from error


def _work(out: Hu, jobs: Iterable[Slice]) -> None:
    for z, how, data in jobs:
        row = out[z]
        if row.dtype != np.int16:
            _float(row, _bits(how, data), how)
        elif _straight(how):
            _read_into(row, how)
            _in_place(row, how)
        else:
            _through_bits(row, _bits(how, data), how)


def _through_bits(row: NDArray[np.int16], bits: Bits, how: Conversion) -> None:
    if bits.dtype.itemsize > 2 or how.rescale.table is not None:
        _wide(row, _values(bits.astype(np.int64), how.pixels), how)
    else:
        np.copyto(row.view(np.uint16), bits, casting="same_kind")
        _in_place(row, how)


def _bits(how: Conversion, data: bytes | None) -> Bits:
    """Bits (rows, columns) of a frame, however they are stored."""
    if not how.pixels.compressed:
        return _plain(how)
    return decoded(next(_frames(how.pixels)) if data is None else data, how.pixels)


def _straight(how: Conversion) -> bool:
    """The bytes of the file are the bytes of the row."""
    pixels = how.pixels
    plain = not (pixels.compressed or pixels.big_endian or pixels.syntax.is_deflated)
    return plain and pixels.bits_allocated == 16 and how.rescale.table is None and np.little_endian


def _read_into(row: NDArray[np.int16], how: Conversion) -> None:
    pixels = how.pixels
    try:
        with pixels.path.open("rb", buffering=0) as file:
            file.seek(pixels.offset + (how.number - 1) * pixels.frame_bytes)
            got = file.readinto(row.data.cast("B"))
    except OSError as error:
        raise UnreadableDicom(f"{GONE} ({type(error).__name__}); {NEXT}") from error
    if got != row.nbytes:
        raise UnreadableDicom(f"{GONE}: its pixels end early; {NEXT}")


def _bytes(pixels: Stored, offset: int, count: int) -> bytes:
    """Bytes of a file, counted after inflation."""
    try:
        with pixels.path.open("rb") as file:
            if not pixels.syntax.is_deflated:
                file.seek(offset)
                return file.read(count)
            whole = file.read()
    except OSError as error:
        raise UnreadableDicom(f"{GONE} ({type(error).__name__}); {NEXT}") from error
    return inflated(whole[pixels.data_at :], offset + count - pixels.data_at)[offset - pixels.data_at :]


def _plain(how: Conversion) -> Bits:
    """Bits of an uncompressed frame (rows, columns)."""
    pixels = how.pixels
    data = _bytes(pixels, pixels.offset + (how.number - 1) * pixels.frame_bytes, pixels.frame_bytes)
    if len(data) < pixels.frame_bytes:
        raise UnreadableDicom(f"{GONE}: its pixels end early; {NEXT}")
    bits = np.frombuffer(data, dtype=f"{'>' if pixels.big_endian else '<'}u{pixels.bits_allocated // 8}")
    return bits.reshape(pixels.rows, pixels.columns).astype(bits.dtype.newbyteorder("="), copy=False)


def _in_place(row: NDArray[np.int16], how: Conversion) -> None:
    """16 bits of each pixel → HU, in the same memory."""
    pixels, rescale = how.pixels, how.rescale
    if pixels.bits_stored == 16 and not pixels.signed:
        _wide(row, row.view(np.uint16).astype(np.int64), how)
        return
    _trim(row, pixels)
    slope, intercept = int(rescale.slope), int(rescale.intercept)
    lowest = AIR_HU - intercept
    if slope != 1 or not -LARGEST <= lowest <= LARGEST:
        _wide(row, row.astype(np.int64), how)
        return
    outside = _outside(row, how)
    if pixels.lowest < lowest:
        np.maximum(row, lowest, out=row)
    if pixels.highest + intercept > LARGEST and int(row.max()) + intercept > LARGEST:
        raise _TooLarge
    if intercept:
        row += np.int16(intercept)
    if outside is not None:
        row[outside] = AIR_HU


def _trim(row: NDArray[np.int16], pixels: Stored) -> None:
    """Only the stored bits count: overlays and leftovers above them are cut off (PS3.5 8.1.1)."""
    bits = row.view(np.uint16)
    if shift := pixels.high_bit + 1 - pixels.bits_stored:
        bits >>= np.uint16(shift)
    if pixels.signed and pixels.bits_stored < 16:
        row <<= 16 - pixels.bits_stored
        row >>= 16 - pixels.bits_stored
    elif pixels.bits_stored < 16:
        bits &= np.uint16((1 << pixels.bits_stored) - 1)


def _values(bits: NDArray[np.int64], pixels: Stored) -> NDArray[np.int64]:
    """The stored bits of each pixel as a number."""
    values = (bits >> (pixels.high_bit + 1 - pixels.bits_stored)) & ((1 << pixels.bits_stored) - 1)
    return values - ((values >> (pixels.bits_stored - 1)) << pixels.bits_stored) if pixels.signed else values


def _outside(values: NDArray[np.int16] | NDArray[np.int64], how: Conversion) -> NDArray[np.bool_] | None:
    """Where padding is stored; None where there is none, or where it would come to −1024 anyway."""
    if how.padding is None:
        return None
    first, last = how.padding
    pixels = how.pixels
    if last < pixels.lowest or first > pixels.highest:
        return None
    if how.rescale.table is None and how.rescale.slope > 0 and last * how.rescale.slope + how.rescale.intercept <= AIR_HU:
        return None
    first, last = max(first, pixels.lowest), min(last, pixels.highest)
    return values == first if first == last else (values >= first) & (values <= last)


def _wide(row: NDArray[np.int16], values: NDArray[np.int64], how: Conversion) -> None:
    """Any whole slope and intercept, or a table, over numbers that int16 might not hold."""
    outside = _outside(values, how)
    hu = _tabled(values, how.rescale) if how.rescale.table is not None else values * int(how.rescale.slope) + int(how.rescale.intercept)
    if outside is not None:
        hu[outside] = AIR_HU
    if int(hu.max()) > LARGEST:
        raise _TooLarge
    np.copyto(row, np.maximum(hu, AIR_HU), casting="same_kind")


def _float(row: NDArray[np.float32], bits: Bits, how: Conversion) -> None:
    values = _values(bits.astype(np.int64), how.pixels)
    outside = _outside(values, how)
    hu = _tabled(values, how.rescale) if how.rescale.table is not None else values
    np.multiply(hu.astype(np.float32), np.float32(how.rescale.slope), out=row)
    row += np.float32(how.rescale.intercept)
    np.maximum(row, np.float32(AIR_HU), out=row)
    if outside is not None:
        row[outside] = AIR_HU


def _tabled(values: NDArray[np.int64], rescale: Rescale) -> NDArray[np.int64]:
    """Through the Modality LUT; below and above it its first and last entries go on (PS3.3 C.11.1.1.1)."""
    assert rescale.table is not None
    return rescale.table[np.clip(values - rescale.first, 0, len(rescale.table) - 1)].astype(np.int64)


def refuse_colour(pixels: Stored) -> None:
    """Raises Permanent for anything but one grey sample a pixel."""
    if pixels.samples != 1 or pixels.photometric not in ("MONOCHROME1", "MONOCHROME2"):
        name = pixels.photometric[:16] or "without a name"
        raise Permanent(f"pixels are {pixels.samples} × {name}, not the one grey value of a CT image")
