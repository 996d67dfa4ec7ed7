"""The C-STORE SCU where the peer or the files are at fault."""

from __future__ import annotations

import gc
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydicom.uid import ExplicitVRLittleEndian
from pynetdicom import AE, evt
from pynetdicom.dsutils import split_dataset

from pipeline.dicom.send import SendResult, send

CT = "1.2.840.10008.5.1.4.1.1.2"
# pynetdicom leaves a socket whose connection failed to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Collect such sockets within the test that made them."""
    yield
    gc.collect()


@pytest.fixture
def baseline(test_data: Path) -> Path:
    return test_data / "malformed" / "baseline" / "BASELINE_valid_ct.dcm"


@pytest.fixture
def peer() -> Iterator[tuple[int, list[bytes], list[int]]]:
    """Port of an SCP that keeps what it gets and answers with the statuses put in its list."""
    got: list[bytes] = []
    answers: list[int] = []

    def handle(event: evt.Event) -> int:
        got.append(event.encoded_dataset(include_meta=False))
        return answers.pop(0) if answers else 0x0000

    ae = AE()
    ae.add_supported_context(CT, ExplicitVRLittleEndian)
    server = ae.start_server(("127.0.0.1", 0), block=False, evt_handlers=[(evt.EVT_C_STORE, handle)])
    assert server is not None
    yield int(server.server_address[1]), got, answers
    server.shutdown()


def test_bytes_leave_as_they_are_and_each_answer_is_counted(peer: tuple[int, list[bytes], list[int]], baseline: Path, tmp_path: Path) -> None:
    port, got, answers = peer
    for number in range(4):
        shutil.copy(baseline, tmp_path / f"{number}.dcm")
    (tmp_path / "notes.txt").write_text("no DICOM")
    answers[:] = [0x0000, 0xB007, 0xA700, 0xC000]
    seen: list[tuple[int, int]] = []
    result = send([tmp_path], "127.0.0.1", port, "ANY", lambda done, total: seen.append((done, total)))
    assert (result.sent, result.succeeded, result.warned) == (4, 1, 1)
    assert [(Path(f.file).name, f.status) for f in result.failed] == [("2.dcm", "0xA700"), ("3.dcm", "0xC000")]
    assert result.skipped == [str(tmp_path / "notes.txt")]
    assert seen == [(n, 4) for n in range(5)]
    assert set(got) == {baseline.read_bytes()[split_dataset(baseline)[1] :]}


def test_a_class_that_the_peer_does_not_take_fails_alone(peer: tuple[int, list[bytes], list[int]], baseline: Path, test_data: Path) -> None:
    result = send([baseline, test_data / "dose_reports" / "ESR_non-dose.dcm"], "127.0.0.1", peer[0], "ANY")
    assert result.succeeded == 1
    assert [f.status for f in result.failed] == ["none"]
    assert "does not take" in result.failed[0].comment


def test_nobody_listening_fails_every_file_and_raises_nothing(baseline: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    result = send([baseline], "127.0.0.1", port, "ANY")
    assert (result.sent, [f.status for f in result.failed]) == (0, ["none"])
    assert "whether the listener runs" in result.failed[0].comment


def test_a_peer_that_hangs_up_fails_every_file(baseline: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: server.accept()[0].close())
        thread.start()
        result = send([baseline, baseline], "127.0.0.1", server.getsockname()[1], "ANY")
        thread.join()
    assert len(result.failed) == 2


def test_an_empty_folder_sends_nothing(tmp_path: Path) -> None:
    assert send([tmp_path], "127.0.0.1", 1, "ANY") == SendResult()


@pytest.mark.parametrize("last_seen", [0.0, 0.05])
def test_a_peer_that_dies_while_it_owes_an_answer_is_noticed_at_once(baseline: Path, tmp_path: Path, last_seen: float) -> None:
    for number in range(3):
        shutil.copy(baseline, tmp_path / f"{number}.dcm")
    script = (
        "import os, sys, time\n"
        "from pynetdicom import AE, evt\n"
        "ae = AE()\n"
        f"ae.add_supported_context('{CT}', '{ExplicitVRLittleEndian}')\n"
        f"die = lambda event: (time.sleep({last_seen}), os.kill(os.getpid(), 9))\n"
        "server = ae.start_server(('127.0.0.1', 0), block=False, evt_handlers=[(evt.EVT_C_STORE, die)])\n"
        "print(server.server_address[1], flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as peer:
        assert peer.stdout is not None
        port = int(peer.stdout.readline())
        began = time.monotonic()
        result = send([tmp_path], "127.0.0.1", port, "ANY")
        took_s = time.monotonic() - began
        peer.kill()
    assert (result.succeeded, len(result.failed)) == (0, 3)
    assert took_s < 20.0
