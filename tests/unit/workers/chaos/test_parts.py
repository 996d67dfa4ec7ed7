"""The parts that a trial is made of: the clock's file, the flagged disk, the studies, the fake encoder, and what a process takes up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.dicom.dose import read_dose
from pipeline.dicom.send import Failure, SendResult
from pipeline.encoder.fake import FakeEncoder
from pipeline.errors import BadInput, StorageFull
from pipeline.model import Stored
from workers.chaos.child import lay_down
from workers.chaos.clock import HOUR_S, FalseClock, false_clock, find_library, swept
from workers.chaos.disk import FLAG, FlaggedDisk, FullArchive
from workers.chaos.plan import Fault
from workers.chaos.senders import Peer, Sending
from workers.chaos.studies import TINY, data_set_of, sop_uid_of, write_studies
from workers.commands.chaos import commands_of

NOW = (
    "import sys, time; from pathlib import Path; from workers.chaos.child import take_up; take_up(Path(sys.argv[1]));"
    "began = time.monotonic(); time.sleep(0.2); print(time.time(), time.monotonic() - began)"
)


def test_a_clock_is_right_until_it_is_set(tmp_path: Path) -> None:
    clock = FalseClock(Path("/nowhere/lib.so"), tmp_path / "faketime")
    clock.set(HOUR_S)
    assert clock.file.read_text() == "+3600\n"
    clock.set(0)
    assert clock.file.read_text() == "+0\n"


def test_where_libfaketime_is_not_installed_there_is_no_clock(tmp_path: Path) -> None:
    assert find_library((f"{tmp_path}/*",)) is None


def test_a_process_lives_an_hour_ahead_and_sleeps_as_long_as_it_should(tmp_path: Path) -> None:
    clock = false_clock(tmp_path)
    if clock is None:
        pytest.skip("libfaketime is not installed")
    clock.set(HOUR_S)
    lay_down(tmp_path, {})

    def told(env: Mapping[str, str]) -> list[float]:
        ran = subprocess.run([sys.executable, "-c", NOW, str(tmp_path)], env=os.environ | env, capture_output=True, text=True, check=True)
        return [float(word) for word in ran.stdout.split()]

    with swept():
        here, there = told({}), told(clock.settings())
    assert 3000 < there[0] - here[0] < 4500
    assert 0.15 < there[1] < 100


def test_what_killed_processes_leave_in_shared_memory_is_swept_and_what_living_ones_hold_is_not(tmp_path: Path) -> None:
    dead, living, older = (tmp_path / f"faketime_shm_{number}" for number in (2**22 + 1, os.getpid(), 2**22 + 2))
    older.touch()
    with swept(tmp_path):
        dead.touch()
        living.touch()
    assert sorted(tmp_path.iterdir()) == sorted([living, older])


def test_an_archive_says_that_it_is_full_as_long_as_the_flag_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FullArchive, "flag", tmp_path / FLAG)
    archive, disk = FullArchive(tmp_path / "archive", 0), FlaggedDisk(tmp_path / FLAG, "nobody may mount here")
    disk.fill()
    assert not archive.has_room()
    with pytest.raises(StorageFull):
        archive.open()
    with pytest.raises(StorageFull):
        archive.features_path("encoder", "ab" * 32)
    disk.free()
    incoming = archive.open()
    incoming.write(b"bytes")
    disk.fill()
    with pytest.raises(StorageFull):
        incoming.commit()
    disk.free()
    assert isinstance(incoming.commit(), Stored)


def test_studies_are_written_once_and_every_second_one_tells_its_dose(tmp_path: Path) -> None:
    studies = write_studies(tmp_path, 1, 2, TINY)
    before = {file: file.stat().st_mtime_ns for study in studies for file in study.files()}
    again = write_studies(tmp_path, 1, 2, TINY)
    assert {file: file.stat().st_mtime_ns for study in again for file in study.files()} == before
    assert [len(study.files()) for study in studies] == [10, 11]
    assert len({sop_uid_of(file) for file in before}) == 21
    (event,) = read_dose(studies[1].folder / "dose.dcm").events
    assert (event.region, event.dlp_mgy_cm) == ("chest", 300.0)
    assert all(file.read_bytes().endswith(data_set_of(file)) for file in before)


def test_the_fake_encoder_gives_the_same_features_for_the_same_files(tmp_path: Path) -> None:
    one, other = write_studies(tmp_path, 1, 2, TINY)
    encoder = FakeEncoder("network", "preparing")
    made = encoder.encode(one.files())
    assert made.identity == encoder.identity
    assert made.array.tobytes() == encoder.encode(one.files()[::-1]).array.tobytes() != encoder.encode(other.files()).array.tobytes()
    encoder.save_features(made, tmp_path / "made.safetensors")
    assert encoder.load_features(tmp_path / "made.safetensors").array.tobytes() == made.array.tobytes()


def test_a_process_takes_up_what_was_laid_down_and_nothing_else(tmp_path: Path) -> None:
    script = (
        "import json, os, sys; from pathlib import Path; from workers.chaos.child import lay_down, take_up;"
        "run = Path(sys.argv[1]); lay_down(run, json.loads(sys.argv[2])); take_up(run);"
        "from pipeline.encoder.series import SeriesEncoder; from pipeline.dicom.archive import FileArchive;"
        "print(os.environ.get('CTREPORT_MODE'), SeriesEncoder.__name__, FileArchive.__name__)"
    )

    def told(laid: dict[str, str]) -> list[str]:
        command = [sys.executable, "-c", script, str(tmp_path), json.dumps(laid)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert told({}) == ["None", "SeriesEncoder", "FileArchive"]
    assert told({"CTREPORT_MODE": "site", "encoder": "fake", "disk": "flagged"}) == ["site", "FakeEncoder", "FullArchive"]


def test_a_study_is_sent_until_all_of_it_is_accepted_and_only_that_counts_as_acknowledged(tmp_path: Path) -> None:
    studies = write_studies(tmp_path, 1, 2, TINY)
    refusing = {study.files()[0]: 2 for study in studies}

    def send_files(files: list[Path], host: str, port: int, aet: str) -> SendResult:
        result = SendResult(sent=len(files))
        for file in files:
            if refusing.get(file, 0):
                refusing[file] -= 1
                result.failed.append(Failure(str(file), "0xA700", ""))
        return result

    sending = Sending(Peer("nowhere", 1, "X"), studies, send_files=send_files)
    sending.start(associations=2)
    assert sending.wait(60)
    assert sending.acknowledged == {file for study in studies for file in study.files()}
    assert sending.refused == 4


def test_sending_that_never_succeeds_is_given_up_and_says_so(tmp_path: Path) -> None:
    studies = write_studies(tmp_path, 1, 1, TINY)

    def send_files(files: list[Path], host: str, port: int, aet: str) -> SendResult:
        return SendResult(failed=[Failure(str(file), "none", "") for file in files])

    sending = Sending(Peer("nowhere", 1, "X"), studies, send_files=send_files)
    sending.start(associations=1)
    assert not sending.wait(0.1)
    assert not sending.acknowledged


def test_a_sites_own_commands_are_named_after_faults() -> None:
    assert commands_of(["kill-beat=docker compose kill beat"]) == {Fault.KILL_BEAT: "docker compose kill beat"}
    for wrong in ("kill-nobody=true", "kill-beat", "kill-beat= "):
        with pytest.raises(BadInput, match="broker-paused"):
            commands_of([wrong])
