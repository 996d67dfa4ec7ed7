"""Storage commitment with real associations: asked, kept, judged by the bytes, reported over the same or a new association."""

from __future__ import annotations

import socket
import threading
from functools import partial
from pathlib import Path

import psycopg
import pytest
from pydicom.dataset import Dataset
from pydicom.uid import generate_uid

from pipeline.dicom.commitment import StorageCommitment
from pipeline.dicom.outlet import Outlet
from pipeline.dicom.reporting import WORKERS, Reporting
from pipeline.dicom.send import send
from tests.builders import ct_slice, part10, write
from tests.integration.dicom.conftest import CT, Site, eventually, store_raw
from tests.integration.dicom.services import AET, Modality, Reference, action, ask, services

WELL_KNOWN = "1.2.840.10008.1.20.1.1"
SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
STATE = "SELECT state, failures FROM commitments"


def fill(site: Site, folder: Path, count: int = 3) -> list[Reference]:
    """Send images; what to ask for."""
    images = [ct_slice(z_mm=float(index), number=index) for index in range(count)]
    assert send(write(folder, images), "127.0.0.1", site.port, "CTREPORT").succeeded == count
    return [(CT, str(image.SOPInstanceUID)) for image in images]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return int(closed.getsockname()[1])


def heard(modality: Modality, count: int) -> bool:
    return len(modality.reports) == count


def peer(port: int, **more: object) -> list[dict[str, object]]:
    return [{"aet": AET, "network": "127.0.0.1", "report_to": f"127.0.0.1:{port}", **more}, {"network": "127.0.0.1"}]


def test_images_that_are_here_are_committed_over_the_same_association(tmp_path: Path, url: str) -> None:
    with services(tmp_path / "archive", url) as site:
        references, modality, uid = fill(site, tmp_path / "sent"), Modality(), generate_uid()
        assoc = modality.associate(site.port)
        assert ask(assoc, action(uid, references)) == 0x0000
        assert modality.heard.wait(10)
        eventually(lambda: site.rows(STATE) == [("reported", 0)])
        assoc.release()
    [report] = modality.reports
    assert (report.event_type, report.transaction_uid, report.committed, report.failed) == (1, uid, set(references), {})


def test_each_object_that_cannot_be_promised_is_named_with_its_reason(tmp_path: Path, url: str) -> None:
    with services(tmp_path / "archive", url) as site:
        references, modality = fill(site, tmp_path / "sent", 4), Modality()
        paths = dict(site.rows("SELECT sop_uid, path FROM instances"))
        (site.root / paths[references[0][1]]).unlink()
        changed = site.root / paths[references[1][1]]
        changed.chmod(0o600)
        changed.write_bytes(changed.read_bytes()[:-1] + b"\x7f")
        wanted = [*references[:2], (SECONDARY_CAPTURE, references[2][1]), (CT, "1.2.3.4"), ("1.2.3.99", "1.2.3.5"), references[3]]
        assoc = modality.associate(site.port)
        assert ask(assoc, action(generate_uid(), wanted)) == 0x0000
        assert modality.heard.wait(10)
        eventually(lambda: site.rows(STATE) == [("reported", 5)])
        assoc.release()
    [report] = modality.reports
    assert (report.event_type, report.committed) == (2, {references[3]})
    assert report.failed == dict(zip(wanted[:5], (0x0110, 0x0110, 0x0119, 0x0112, 0x0122), strict=True))


def test_a_peer_that_has_gone_is_told_over_a_new_association(tmp_path: Path, url: str) -> None:
    modality = Modality()
    with modality.listening() as port, services(tmp_path / "archive", url, peers=peer(port)) as site:
        references = fill(site, tmp_path / "sent")
        assoc = modality.associate(site.port)
        assert ask(assoc, action(generate_uid(), references)) == 0x0000
        assoc.abort()
        eventually(lambda: site.rows(STATE) == [("reported", 0)])
    assert modality.reports[-1].committed == set(references)


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # the library leaves a refused connection to the garbage collector
def test_a_report_is_tried_until_the_peer_listens(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outlet, "is_open", False)
    modality, port = Modality(), free_port()
    with services(tmp_path / "archive", url, peers=peer(port)) as site:
        references = fill(site, tmp_path / "sent")
        assoc = modality.associate(site.port)
        assert ask(assoc, action(generate_uid(), references)) == 0x0000
        assoc.release()
        eventually(lambda: site.rows("SELECT attempts > 1 FROM commitments") == [(True,)])
        [(reason,)] = site.rows("SELECT reason FROM commitments")
        assert "does not accept an association" in reason
        with modality.listening(port):
            eventually(lambda: site.rows(STATE) == [("reported", 0)])
    assert [report.committed for report in modality.reports] == [set(references)]


def test_a_peer_without_an_address_is_told_when_it_connects_again(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    modality = Modality()
    with services(tmp_path / "archive", url, commit={"retry_delay_s": 600}) as site:
        references = fill(site, tmp_path / "sent")
        with monkeypatch.context() as patch:
            patch.setattr(Outlet, "is_open", False)
            assoc = modality.associate(site.port)
            assert ask(assoc, action(generate_uid(), references)) == 0x0000
            assoc.release()
            eventually(lambda: site.rows("SELECT count(*) FROM commitments WHERE reason LIKE '%no report_to address%'") == [(1,)])
        modality.associate(site.port, aet="ANOTHER").release()
        again = modality.associate(site.port)
        assert modality.heard.wait(10)
        eventually(lambda: site.rows(STATE) == [("reported", 0)])
        again.release()
    assert [report.committed for report in modality.reports] == [set(references)]


def test_a_request_that_was_answered_is_reported_after_a_restart(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    modality = Modality()
    with modality.listening() as port:
        with monkeypatch.context() as patch:
            patch.setattr(Reporting, "work", lambda *_: None)  # killed before any work was done
            with services(tmp_path / "archive", url, peers=peer(port)) as site:
                references = fill(site, tmp_path / "sent")
                assoc = modality.associate(site.port)
                assert ask(assoc, action(generate_uid(), references)) == 0x0000
                assoc.release()
        with psycopg.connect(url) as connection:
            connection.execute("UPDATE commitments SET lease_until = now(), due_at = now()")
        with services(tmp_path / "archive", url, peers=peer(port)) as site:
            eventually(lambda: site.rows(STATE) == [("reported", 0)])
    assert [report.committed for report in modality.reports] == [set(references)]


def test_the_same_transaction_asked_twice_is_one_row_and_is_told_again(tmp_path: Path, url: str) -> None:
    with services(tmp_path / "archive", url) as site:
        references, modality, uid = fill(site, tmp_path / "sent"), Modality(), generate_uid()
        assoc = modality.associate(site.port)
        for times in (1, 2):
            assert ask(assoc, action(uid, references)) == 0x0000
            eventually(partial(heard, modality, times))
            eventually(lambda: site.rows(STATE) == [("reported", 0)])
        assoc.release()


NONSENSE: dict[str, tuple[Dataset | None, int, str, int]] = {
    "no transaction": (action(None, [(CT, "1.2.3")]), 1, WELL_KNOWN, 0x0115),
    "no sequence": (action("1.2.3", None), 1, WELL_KNOWN, 0x0115),
    "empty sequence": (action("1.2.3", []), 1, WELL_KNOWN, 0x0115),
    "no instance": (action("1.2.3", [(CT, "")]), 1, WELL_KNOWN, 0x0115),
    "no data set": (None, 1, WELL_KNOWN, 0x0115),
    "unknown action": (action("1.2.3", [(CT, "1.2.3")]), 2, WELL_KNOWN, 0x0123),
    "unknown instance": (action("1.2.3", [(CT, "1.2.3")]), 1, "1.2.3.4", 0x0112),
}


def test_requests_that_make_no_sense_are_refused(tmp_path: Path, url: str) -> None:
    with services(tmp_path / "archive", url) as site:
        assoc = Modality().associate(site.port)
        answers = {name: ask(assoc, ds, action_type, instance) for name, (ds, action_type, instance, _) in NONSENSE.items()}
        assoc.release()
        assert answers == {name: status for name, (_, _, _, status) in NONSENSE.items()}
        assert site.rows("SELECT count(*) FROM commitments") == [(0,)]


def test_a_dead_database_refuses_the_request_and_keeps_the_association(tmp_path: Path) -> None:
    url = f"postgresql://u:p@127.0.0.1:{free_port()}/none"
    with services(tmp_path / "archive", url) as site:
        assoc = Modality().associate(site.port)
        assert [ask(assoc, action("1.2.3", [(CT, "1.2.3")])) for _ in range(2)] == [0x0213, 0x0213]
        assoc.release()


def test_a_peer_that_refuses_the_report_is_given_up_after_the_limit(tmp_path: Path, url: str) -> None:
    modality = Modality(answer=0x0110)
    with services(tmp_path / "archive", url, commit={"give_up_h": 0.0001}) as site:
        assoc = modality.associate(site.port)
        assert ask(assoc, action(generate_uid(), [(CT, "1.2.3")])) == 0x0000
        assert modality.heard.wait(10)
        eventually(lambda: site.rows(STATE) == [("failed", None)])
        [(reason,)] = site.rows("SELECT reason FROM commitments")
        assert "no report_to" in reason or "0x0110" in reason
        assoc.release()


def test_a_peer_that_keeps_its_association_is_told_again_until_it_accepts(tmp_path: Path, url: str) -> None:
    modality = Modality(answer=0x0110)
    with services(tmp_path / "archive", url) as site:
        assoc = modality.associate(site.port)
        assert ask(assoc, action(generate_uid(), [(CT, "1.2.3")])) == 0x0000
        eventually(lambda: len(modality.reports) >= 2)
        [(reason,)] = site.rows("SELECT reason FROM commitments")
        assert "answered the report with status 0x0110" in reason
        modality.answer = 0xB000
        eventually(lambda: site.rows(STATE) == [("reported", 1)])
        assoc.release()


def test_reports_between_images_lose_no_image(tmp_path: Path, url: str) -> None:
    with services(tmp_path / "archive", url) as site:
        modality, count = Modality(), 60
        images = [ct_slice(z_mm=float(index), number=index) for index in range(count)]
        assoc = modality.associate(site.port, CT)
        statuses = []
        for index, image in enumerate(images):
            if index % 6 == 0:
                assert ask(assoc, action(generate_uid(), [(CT, str(image.SOPInstanceUID))] * 3)) == 0x0000
            data = part10(image)
            statuses.append(store_raw(assoc, data[data.index(b"\x08\x00\x05\x00") :], str(image.SOPInstanceUID)))
        assert statuses == [0x0000] * count
        eventually(lambda: len(modality.reports) == 10)
        eventually(lambda: site.rows("SELECT count(*) FROM commitments WHERE state = 'reported'") == [(10,)])
        assoc.release()
        assert site.rows("SELECT count(*) FROM instances") == [(count,)]


def test_nothing_is_left_of_associations_that_speak_of_commitments(tmp_path: Path, url: str) -> None:
    with services(tmp_path / "archive", url) as site:
        before = threading.active_count()
        for number in range(30):
            assoc = Modality().associate(site.port)
            assoc.release() if number % 2 else assoc.abort()
        eventually(lambda: threading.active_count() <= before + WORKERS)
        [service, _] = site.listener._site.services
        assert isinstance(service, StorageCommitment)
        eventually(lambda: not service._outlets)
