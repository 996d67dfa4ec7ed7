"""C-STORE SCU: files as they are, each in its own transfer syntax, no pixel decoded, nothing sent twice."""

from __future__ import annotations

import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydicom.dataset import FileMetaDataset
from pydicom.errors import InvalidDicomError
from pydicom.filereader import read_file_meta_info
from pynetdicom import AE, _config
from pynetdicom.association import Association
from pynetdicom.presentation import PresentationContext, build_context

CONTEXTS_PER_ASSOCIATION = 128  # PS3.8 9.3.2.2: odd ids up to 255
CALLING_AET = "CTREPORT_SEND"
NO_ANSWER = "none"
TIMEOUT_S = 60.0
GONE = "the peer gave no answer and closed the association"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Failure:
    """One file that was not accepted; `status` is DIMSE's in hexadecimal, or `none` where no answer came."""

    file: str
    status: str
    comment: str


@dataclass
class SendResult:
    """What became of each file. `skipped` are those that are no DICOM files."""

    sent: int = 0
    succeeded: int = 0
    warned: int = 0
    failed: list[Failure] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """The keys of `ctreport send --json`."""
        failed = [{"file": f.file, "status": f.status, "comment": f.comment} for f in self.failed]
        return {"sent": self.sent, "succeeded": self.succeeded, "warned": self.warned, "failed": failed, "skipped": self.skipped}

    def note(self, file: Path, status: int, comment: str) -> None:
        """Count one answer."""
        self.sent += 1
        if status == 0x0000:
            self.succeeded += 1
        elif 0xB000 <= status < 0xC000:
            self.warned += 1
        else:
            self.failed.append(Failure(str(file), f"0x{status:04X}", comment))

    def lose(self, file: Path, comment: str) -> None:
        """Count one file that got no answer."""
        self.failed.append(Failure(str(file), NO_ANSWER, comment))


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a presentation context is needed for."""

    sop_class: str
    transfer_syntax: str


def send(paths: Sequence[Path], host: str, port: int, aet: str, progress: Progress = lambda done, total: None) -> SendResult:
    """Send files and all files below folders. Never raises for what a peer or a file does: the result names each failure."""
    _config.STORE_SEND_CHUNKED_DATASET = True  # send_c_store then reads the file's bytes instead of encoding anew
    result = SendResult()
    kinds = _sorted_by_kind(paths, result)
    total, done = sum(len(files) for files in kinds.values()), 0
    progress(0, total)
    for batch in _batches(list(kinds)):
        files = [file for kind in batch for file in kinds[kind]]
        with_contexts = [build_context(kind.sop_class, kind.transfer_syntax) for kind in batch]
        for _ in _send_batch(sorted(files), with_contexts, (host, port, aet), result):
            done += 1
            progress(done, total)
    return result


def _sorted_by_kind(paths: Sequence[Path], result: SendResult) -> dict[_Kind, list[Path]]:
    """Files by SOP class and transfer syntax; others are noted in the result."""
    kinds: dict[_Kind, list[Path]] = defaultdict(list)
    for file in _files(paths):
        meta = _meta(file)
        if meta is None:
            result.skipped.append(str(file))
        elif missing := [k for k in ("MediaStorageSOPClassUID", "MediaStorageSOPInstanceUID", "TransferSyntaxUID") if not meta.get(k)]:
            result.lose(file, f"the file meta lacks {', '.join(missing)}")
        else:
            kinds[_Kind(str(meta.MediaStorageSOPClassUID), str(meta.TransferSyntaxUID))].append(file)
    return kinds


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else (path,)


def _meta(file: Path) -> FileMetaDataset | None:
    """Group 2 of a file; None for what is no DICOM file."""
    try:
        return read_file_meta_info(file)
    except (InvalidDicomError, OSError, EOFError, ValueError, AttributeError, NotImplementedError):
        return None


def _batches(kinds: Sequence[_Kind]) -> Iterator[Sequence[_Kind]]:
    for start in range(0, len(kinds), CONTEXTS_PER_ASSOCIATION):
        yield kinds[start : start + CONTEXTS_PER_ASSOCIATION]


def _send_batch(files: Sequence[Path], contexts: list[PresentationContext], peer: tuple[str, int, str], result: SendResult) -> Iterator[Path]:
    """Send over one association; yields each file when its fate is known."""
    assoc, silent = _associate(contexts, peer), False
    try:
        for file in files:
            if silent:
                result.lose(file, GONE)
            else:
                silent = not _send_file(assoc, file, result)
            yield file
    finally:
        if assoc.is_established and not silent:
            assoc.release()


def _associate(contexts: list[PresentationContext], peer: tuple[str, int, str]) -> Association:
    host, port, aet = peer
    ae = AE(CALLING_AET)
    ae.network_timeout = ae.dimse_timeout = ae.acse_timeout = ae.connection_timeout = TIMEOUT_S
    assoc = ae.associate(host, port, contexts=contexts, ae_title=aet, max_pdu=131_072)
    threading.Thread(target=_watch, args=(assoc,), name="send-watch", daemon=True).start()
    transport = assoc.dul.socket
    if assoc.is_established and transport is not None and transport.socket is not None:
        transport.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each image waits 40 ms for a delayed ACK
    return assoc


def _watch(assoc: Association) -> None:
    """A peer that is gone answers nothing any more: once the network thread has ended, whoever waits for a response is told so. The library
    does it itself for most ends of a connection, not for all."""
    assoc.dul.join()
    assoc.dimse.msg_queue.put((None, None))


def _send_file(assoc: Association, file: Path, result: SendResult) -> bool:
    """False when the peer owed an answer and gave none: nothing more can be sent to it over this association."""
    if not assoc.is_established:
        result.lose(file, _why(assoc))
        return True
    try:
        answer = assoc.send_c_store(file)
    except (ValueError, AttributeError, RuntimeError, OSError) as error:
        result.lose(file, _refusal(error))
        return True
    if "Status" not in answer:
        result.lose(file, GONE)
        return False
    result.note(file, int(answer.Status), str(answer.get("ErrorComment", "")))
    return True


def _why(assoc: Association) -> str:
    if assoc.is_rejected:
        return "the peer rejected the association; check the AE titles and its limit of associations"
    if assoc.is_aborted:
        return "the association was aborted or never came about; check host, port and whether the listener runs"
    return "no association; check host, port and whether the listener runs"


def _refusal(error: Exception) -> str:
    """pynetdicom says so by ValueError when the peer took no presentation context for the file."""
    if isinstance(error, ValueError):
        return "the peer does not take this SOP class in this transfer syntax"
    return f"it could not be sent ({type(error).__name__})"
