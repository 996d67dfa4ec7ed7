"""Who may associate: networks, AE titles, numbers of associations, also across processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from pynetdicom import AE
from pynetdicom.association import Association
from pynetdicom.sop_class import Verification  # type: ignore[attr-defined]  # generated at import

from pipeline.dicom.slots import Slots
from tests.builders import ct_slice
from tests.integration.dicom.conftest import CT, Site, eventually
from tests.integration.dicom.services import services

HERE = "127.0.0.0/8"


def call(site: Site, aet: str = "CT1", called: str = "CTREPORT") -> Association:
    ae = AE(aet)
    ae.add_requested_context(Verification)
    return ae.associate("127.0.0.1", site.port, ae_title=called)


def why(assoc: Association) -> tuple[int, int, int]:
    """Result, source and reason of an A-ASSOCIATE-RJ."""
    assert assoc.is_rejected
    primitive = assoc.acceptor.primitive
    assert primitive is not None
    assert primitive.result is not None
    assert primitive.result_source is not None
    assert primitive.diagnostic is not None
    return primitive.result, primitive.result_source, primitive.diagnostic


def test_an_unknown_calling_title_is_rejected_and_a_known_one_served(tmp_path: Path, url: str) -> None:
    with services(tmp_path, url, peers=[{"aet": "CT1", "network": HERE}]) as site:
        before = threading.active_count()
        assert why(call(site, "CT2")) == (1, 1, 3)
        good = call(site)
        assert good.send_c_echo().Status == 0x0000
        good.release()
        eventually(lambda: threading.active_count() <= before)


def test_a_title_is_known_only_in_its_network(tmp_path: Path, url: str) -> None:
    with services(tmp_path, url, peers=[{"aet": "CT1", "network": "192.0.2.0/24"}, {"aet": "CT2", "network": HERE}]) as site:
        assert why(call(site)) == (1, 1, 3)


def test_a_foreign_network_is_closed_before_a_byte_is_read(tmp_path: Path, url: str) -> None:
    with services(tmp_path, url, peers=[{"network": "192.0.2.0/24"}]) as site, socket.create_connection(("127.0.0.1", site.port), 5) as connection:
        assert connection.recv(1) == b""


def test_an_empty_list_admits_nobody(tmp_path: Path, url: str) -> None:
    with services(tmp_path, url, peers=[]) as site, socket.create_connection(("127.0.0.1", site.port), 5) as connection:
        assert connection.recv(1) == b""


def test_another_called_title_is_rejected_where_it_is_checked(tmp_path: Path, url: str) -> None:
    with services(tmp_path, url, access={"check_called_aet": True}) as site:
        assert why(call(site, called="SOMEBODY")) == (1, 1, 7)
        call(site).release()
    with services(tmp_path, url) as site:
        call(site, called="SOMEBODY").release()


def test_a_slowed_peer_takes_its_time_and_loses_nothing(tmp_path: Path, url: str) -> None:
    image = ct_slice(pixels=np.zeros((512, 512), np.int16))  # 0.5 MB
    with services(tmp_path, url, peers=[{"network": HERE, "mb_per_s": 1.0}]) as site:
        ae = AE("CT1")
        ae.add_requested_context(CT)
        assoc = ae.associate("127.0.0.1", site.port)
        began = time.monotonic()
        assert assoc.send_c_store(image).Status == 0x0000
        assert time.monotonic() - began >= 0.5
        assoc.release()


@pytest.mark.parametrize("end", ["release", "abort", "vanish"])
def test_more_associations_of_one_host_than_its_limit_are_rejected_until_one_ends(tmp_path: Path, url: str, end: str) -> None:
    with services(tmp_path, url, peers=[{"aet": "CT1", "network": HERE, "associations": 2}, {"network": HERE}]) as site:
        first, second = call(site), call(site)
        assert why(call(site)) == (2, 3, 2)
        call(site, "OTHER").release()
        if end == "vanish":
            assert first.dul.socket is not None
            assert first.dul.socket.socket is not None
            first.dul.socket.socket.close()
        else:
            getattr(first, end)()

        def served() -> bool:
            again = call(site)
            established = again.is_established
            again.release()
            return established

        eventually(served)
        second.release()


def test_the_limit_holds_for_all_processes_that_share_the_archive(tmp_path: Path, url: str) -> None:
    limit = {"associations_per_host": 1}
    with services(tmp_path / "a", url, access=limit) as one, services(tmp_path / "a", url, access=limit, name="second") as other:
        first = call(one)
        assert why(call(other)) == (2, 3, 2)
        first.release()
        eventually(lambda: call(other).is_established)


def _hold(folder: Path, ready: multiprocessing.synchronize.Event) -> None:
    taken = [Slots(folder).take("host", 2) for _ in range(2)]
    assert all(taken)
    ready.set()
    signal.pause()


def test_places_of_a_killed_process_are_free_again(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold, args=(tmp_path, ready))
    process.start()
    assert ready.wait(30)
    slots = Slots(tmp_path)
    assert slots.take("host", 2) is None
    other = slots.take("other", 1)
    assert other is not None
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(30)
    slot = slots.take("host", 2)
    assert slot is not None
    slot.release()
    slot.release()
    other.release()
    assert len(list(tmp_path.iterdir())) == 3
