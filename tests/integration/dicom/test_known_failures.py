"""Where other receivers are known to lose studies: images that come at a bad moment, pauses, restarts, re-sends, odd headers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pipeline.dicom.send import SendResult, send
from pipeline.evidence import Patience
from pipeline.flow.assemble import Assembling, assemble
from pipeline.model import Lease
from tests.builders import Bell
from tests.integration.dicom.conftest import Site, eventually, serving
from tests.integration.dicom.images import Image, bytes_kept, made
from tests.wire import USER_ABORT, Peer

SLICES = 12
STUDY = [made(number, "whole") for number in range(SLICES)]
QUIET = Patience(quiet_s=30.0, settle_s=5.0, patience_s=600.0, force_after_s=86_400.0)
AT_ONCE = Patience(quiet_s=0.0, settle_s=0.0, patience_s=0.0, force_after_s=86_400.0)


class NoPhantoms:
    """A ledger without phantoms. `meanwhile` runs while a study is being acted on: claimed, and not frozen yet."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self._meanwhile = meanwhile

    def holds_all(self, sop_uids: object) -> bool:
        self._meanwhile()
        return False


def act(site: Site, patience: Patience = AT_ONCE, meanwhile: Callable[[], object] = lambda: None) -> int:
    """One round of the assembler; how many studies it took up."""
    return assemble(Assembling(site.store, NoPhantoms(meanwhile), Bell(), patience, 8), 10, Lease("test", 60.0))


def stored(site: Site, *images: Image) -> None:
    """Sent over one association, each answered with Success, released and closed in the database."""
    with Peer(site.port) as peer:
        assert [image.sent(peer) for image in images] == [0x0000] * len(images)
        peer.release()
    all_closed(site)


def all_closed(site: Site) -> None:
    eventually(lambda: site.rows("SELECT count(*) FROM associations WHERE closed_at IS NULL") == [(0,)])


def hours_later(site: Site, hours: float = 2.0) -> None:
    """As if everything so far had happened earlier."""
    back = f"- interval '{hours * 60:.0f} minutes'"
    moves = {"studies": ("first_received", "last_received", "arriving_since", "due_at"), "associations": ("opened_at", "closed_at")}
    with psycopg.connect(site.url) as connection:
        for table, columns in moves.items():
            connection.execute(f"UPDATE {table} SET {', '.join(f'{c} = {c} {back}' for c in columns)}".encode())


def jobs(site: Site) -> list[tuple[Any, ...]]:
    return site.rows("SELECT revision, state, jsonb_array_length(files) FROM jobs ORDER BY revision")


def study_state(site: Site) -> tuple[str, int]:
    ((state, images),) = site.rows("SELECT state, images FROM studies")
    return state, images


# an image arrives while its study is being acted on


def test_an_image_that_arrives_while_its_study_is_acted_on_is_kept_and_the_study_is_not_frozen_without_it(site: Site) -> None:
    stored(site, *STUDY[:-1])
    act(site, meanwhile=lambda: stored(site, STUDY[-1]))
    assert jobs(site) == []
    assert study_state(site) == ("receiving", SLICES)
    assert act(site) == 1
    assert jobs(site) == [(1, "ready", SLICES)]
    assert bytes_kept(site) == {image.data for image in STUDY}


def test_an_image_that_arrives_after_its_study_was_frozen_reopens_it_as_the_next_revision(site: Site) -> None:
    stored(site, *STUDY[:-1])
    act(site)
    assert jobs(site) == [(1, "ready", SLICES - 1)]
    stored(site, STUDY[-1])
    assert study_state(site) == ("receiving", SLICES)
    act(site)
    assert jobs(site) == [(1, "superseded", SLICES - 1), (2, "ready", SLICES)]
    assert bytes_kept(site) == {image.data for image in STUDY}
    assert site.verified().clean


# a pause longer than the quiet time


def test_a_pause_in_an_open_association_never_freezes_half_a_study(site: Site) -> None:
    with Peer(site.port) as peer:
        assert [image.sent(peer) for image in STUDY[:6]] == [0x0000] * 6
        hours_later(site)
        act(site, QUIET)
        assert jobs(site) == []
        assert study_state(site) == ("receiving", 6)
        assert [image.sent(peer) for image in STUDY[6:]] == [0x0000] * 6
        peer.release()
    all_closed(site)
    hours_later(site)
    act(site, QUIET)
    assert jobs(site) == [(1, "ready", SLICES)]
    assert study_state(site)[0] == "complete"


@pytest.mark.parametrize("end", ["abort", "lost"])
def test_half_a_study_whose_sender_broke_off_is_waited_for_and_then_says_what_it_is(site: Site, end: str) -> None:
    with Peer(site.port) as peer:
        assert [image.sent(peer) for image in STUDY[:9]] == [0x0000] * 9
        if end == "abort":
            peer.socket.sendall(USER_ABORT)
    all_closed(site)
    hours_later(site, 0.05)  # longer than the quiet time, shorter than the patience with what broke off
    act(site, QUIET)
    assert jobs(site) == []
    hours_later(site)
    act(site, QUIET)
    assert study_state(site)[0] == "partial"
    ((reason,),) = site.rows("SELECT completeness FROM jobs")
    assert reason


# a restart


def test_a_restart_does_not_fire_incomplete_studies(tmp_path: Path, url: str) -> None:
    with serving(tmp_path / "archive", url) as first:
        peer = Peer(first.port)
        assert [image.sent(peer) for image in STUDY[:6]] == [0x0000] * 6
        act(first, QUIET)
    peer.socket.close()
    with serving(tmp_path / "archive", url) as again:
        all_closed(again)
        hours_later(again, 0.05)  # it was down for three minutes
        act(again, QUIET)
        assert jobs(again) == []
        stored(again, *STUDY[6:])
        hours_later(again)
        act(again, QUIET)
        assert jobs(again) == [(1, "ready", SLICES)]


# a re-send


def test_a_resend_counts_once_whether_later_or_at_the_same_moment(site: Site, test_data: Path) -> None:
    stored(site, *STUDY, *STUDY)
    stored(site, *STUDY)
    results: list[SendResult] = []
    folder = test_data / "chest_lidc_0314"
    threads = [threading.Thread(target=lambda: results.append(send([folder], "127.0.0.1", site.port, "CTREPORT"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert [(r.succeeded, r.failed) for r in results] == [(28, [])] * 4
    assert sorted(site.rows("SELECT images FROM studies")) == [(SLICES,), (28,)]
    assert site.rows("SELECT count(*) FROM instances") == [(SLICES + 28,)]
    assert len(site.files("objects")) == SLICES + 28
    assert site.verified().acknowledged == SLICES + 28
    assert site.verified().clean


def test_a_resend_of_a_frozen_study_makes_no_revision(site: Site) -> None:
    stored(site, *STUDY)
    act(site)
    stored(site, *STUDY)
    assert act(site) == 0
    assert jobs(site) == [(1, "ready", SLICES)]


# headers


def test_empty_instance_numbers_fail_neither_the_images_nor_the_study(site: Site) -> None:
    images = [made(number, "unnumbered", InstanceNumber=("", " ", None)[number % 3]) for number in range(SLICES)]
    with Peer(site.port) as peer:
        assert {image.sent(peer) for image in images} <= {0x0000, 0xB007}
        peer.release()
    all_closed(site)
    act(site)
    assert jobs(site) == [(1, "ready", SLICES)]


NAMES = {
    "GB18030 as it says": ("GB18030", "张^小东".encode("gb18030")),
    "GBK as it says": ("GBK", "张^小东".encode("gbk")),
    "GBK under Latin 1": ("ISO_IR 100", "张^小东".encode("gbk")),
    "GBK under nothing": ("", "张^小东".encode("gbk")),
    "GBK under ASCII": ("ISO_IR 6", "张^小东".encode("gbk")),
    "GBK under UTF-8": ("ISO_IR 192", "张^小东".encode("gbk")),
    "UTF-8 as it says": ("ISO_IR 192", "张^小东".encode()),
    "UTF-8 under Latin 1": ("ISO_IR 100", "张^小东".encode()),
    "UTF-8 under GB18030": ("GB18030", "张^小东".encode()),
    "UTF-8 under nothing": ("", "张^小东".encode()),
    "ISO 2022 IR 58 with its escapes": ("\\ISO 2022 IR 58", b"\x1b$)A" + "张".encode("gb2312") + b"^" + b"\x1b$)A" + "小东".encode("gb2312")),
}


def test_chinese_names_never_become_question_marks(site: Site) -> None:
    for name, (charset, raw) in NAMES.items():
        padded = raw + b" " * (len(raw) % 2)
        charsets = charset.split("\\") if "\\" in charset else charset
        image = made(1, name, PatientID=name, SpecificCharacterSet=charsets, PatientName="X" * len(padded))
        data = image.data.replace(b"X" * len(padded), padded)
        assert padded in data
        with Peer(site.port) as peer:
            assert peer.store(data, image.sop_uid) in (0x0000, 0xB007)
            peer.release()
    assert dict(site.rows("SELECT patient_id, name FROM patients")) == dict.fromkeys(NAMES, "张^小东")
