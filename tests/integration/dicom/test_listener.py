"""The C-STORE service with real associations."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import psycopg
import pytest
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRLittleEndian
from pynetdicom import AE
from pynetdicom.dsutils import split_dataset
from pynetdicom.sop_class import Verification  # type: ignore[attr-defined]  # generated at import

from pipeline.dicom.ledger import read_ledger
from pipeline.dicom.send import send
from pipeline.model import Step
from tests.integration.dicom.conftest import CT, Site, associate, connection_of, eventually, serving, store_raw

BASELINE = Path("malformed/baseline/BASELINE_valid_ct.dcm")


def data_set(path: Path) -> tuple[bytes, str, str, str]:
    """Data set bytes, SOP class, SOP instance and transfer syntax of a file."""
    meta, start = split_dataset(path)
    raw = path.read_bytes()
    found = (
        str(meta.get(k, other)) for k, other in (("MediaStorageSOPClassUID", CT), ("MediaStorageSOPInstanceUID", "1.2.3"), ("TransferSyntaxUID", ""))
    )
    sop_class, sop_uid, syntax = found
    default = DeflatedExplicitVRLittleEndian if "deflate" in path.stem else ExplicitVRLittleEndian
    return raw[start:] or raw, sop_class, sop_uid, syntax or default


def test_echo_is_answered(site: Site) -> None:
    ae = AE("TEST")
    ae.add_requested_context(Verification)
    assoc = ae.associate("127.0.0.1", site.port)
    assert assoc.send_c_echo().Status == 0x0000
    assoc.release()


def test_a_chest_ct_arrives_bit_for_bit_and_again_changes_nothing(site: Site, test_data: Path) -> None:
    folder = test_data / "chest_lidc_0314"
    for _ in range(2):
        result = send([folder], "127.0.0.1", site.port, "CTREPORT")
        assert (result.sent, result.succeeded, result.warned, result.failed) == (28, 28, 0, [])
        assert site.rows("SELECT count(*) FROM studies") == [(1,)]
        assert site.rows("SELECT count(*), bool_and(is_first) FROM instances") == [(28, True)]
    assert len(site.files("objects")) == 28
    sent = {data_set(path)[0] for path in folder.glob("*.dcm")}
    assert {data_set(path)[0] for path in site.files("objects")} == sent
    report = site.verified()
    assert report.clean, report.summary()
    assert report.acknowledged == 28
    assert not report.orphaned
    assert not site.files("incoming")


def test_names_of_every_character_set_come_out_right(site: Site, test_data: Path) -> None:
    wanted = {"chrX1": "Wang^XiaoDong=王^小東", "chrX2": "Wang^XiaoDong=王^小东", "chrFren": "Buc^Jérôme", "chrI2": "Hong^Gildong=洪^吉洞=홍^길동"}
    folder = test_data / "odd_headers" / "charset_files"
    result = send([folder / f"{name}.dcm" for name in wanted], "127.0.0.1", site.port, "CTREPORT")
    assert result.failed == []
    assert {name for (name,) in site.rows("SELECT name FROM patients")} == set(wanted.values())


def test_other_bytes_under_a_known_uid_are_kept_beside_the_first_and_flagged(site: Site, test_data: Path) -> None:
    data, _, sop_uid, syntax = data_set(test_data / BASELINE)
    assoc = associate(site.port, (CT, syntax))
    assert store_raw(assoc, data, sop_uid) == 0x0000
    assert store_raw(assoc, data[:-1] + bytes([data[-1] ^ 1]), sop_uid) == 0xB007
    assoc.release()
    assert site.rows("SELECT is_first FROM instances ORDER BY received_at") == [(True,), (False,)]
    assert len(site.files("objects")) == 2
    assert site.verified().clean


def test_a_data_set_of_another_class_or_instance_than_requested(site: Site, test_data: Path) -> None:
    data, _, _, syntax = data_set(test_data / BASELINE)
    secondary_capture = "1.2.840.10008.5.1.4.1.1.7"
    assoc = associate(site.port, (CT, syntax), (secondary_capture, syntax))
    assert store_raw(assoc, data, "1.2.3.4", secondary_capture) == 0xA900
    assert store_raw(assoc, data, "1.2.3.4") == 0xB007
    assoc.release()
    assert site.rows("SELECT flags FROM instances") == [(["sop-uid-differs"],)]


def test_garbage_is_quarantined_and_answered(site: Site) -> None:
    assoc = associate(site.port)
    for data in (b"\x00" * 10, b"no dicom at all", bytes(range(256)) * 40):
        assert store_raw(assoc, data, "1.2.3") == 0xC000
    assoc.release()
    assert len(site.files("quarantine")) == 6  # each with its reason beside it


def test_a_dead_database_costs_a_refusal_and_no_association(tmp_path: Path, test_data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"postgresql://u:p@127.0.0.1:{closed.getsockname()[1]}/none"
    data, _, sop_uid, syntax = data_set(test_data / BASELINE)
    with serving(tmp_path, url) as site:
        assoc = associate(site.port, (CT, syntax))
        assert store_raw(assoc, data, sop_uid) == 0xA700
        assert store_raw(assoc, data, sop_uid) == 0xA700
        assoc.release()
        assert not site.files("objects")
        assert read_ledger(site.root / "ledger") == ()


def test_how_an_association_ended_is_noted_and_the_bell_rings_once(site: Site, test_data: Path) -> None:
    data, _, sop_uid, syntax = data_set(test_data / BASELINE)
    for end in ("release", "abort"):
        assoc = associate(site.port, (CT, syntax))
        store_raw(assoc, data, sop_uid)
        getattr(assoc, end)()
        eventually(lambda: site.rows("SELECT count(*) FROM associations WHERE closed_at IS NULL") == [(0,)])
    assoc = associate(site.port, (CT, syntax))
    store_raw(assoc, data, sop_uid)
    connection_of(assoc).close()
    eventually(lambda: site.rows("SELECT how FROM associations ORDER BY opened_at") == [("released",), ("aborted",), ("lost",)])
    eventually(lambda: site.bell.rung == [Step.ASSEMBLE] * 3)


def test_an_association_that_brought_nothing_leaves_no_row_and_rings_nothing(site: Site) -> None:
    associate(site.port).release()
    assert site.rows("SELECT count(*) FROM associations") == [(0,)]
    assert site.bell.rung == []


def test_an_aborted_transfer_leaves_no_file(site: Site, test_data: Path) -> None:
    assoc = associate(site.port)
    sock = connection_of(assoc)
    # a P-DATA-TF that announces 1000 bytes and brings a few
    sock.sendall(b"\x04\x00" + (1000).to_bytes(4, "big") + (996).to_bytes(4, "big") + b"\x01\x03" + b"\x00" * 20)
    sock.close()
    data, _, sop_uid, syntax = data_set(test_data / BASELINE)
    again = associate(site.port, (CT, syntax))
    assert store_raw(again, data, sop_uid) == 0x0000
    again.release()
    assert len(site.files("objects")) == 1
    assert not site.files("incoming")


def test_an_object_beyond_the_limit_is_refused_and_the_association_goes_on(tmp_path: Path, url: str, test_data: Path) -> None:
    data, _, sop_uid, syntax = data_set(test_data / BASELINE)
    with serving(tmp_path, url, max_object_mb=1) as site:
        assoc = associate(site.port, (CT, syntax))
        assert store_raw(assoc, data + bytes(3 << 20), sop_uid) == 0xA700
        assert not site.files("incoming")
        assert not site.files("objects")
        assert store_raw(assoc, data, sop_uid) == 0x0000
        assoc.release()


def test_orphaned_associations_of_an_earlier_process_are_closed_at_start(tmp_path: Path, url: str) -> None:
    with serving(tmp_path, url):
        insert = "INSERT INTO associations (id, listener, calling_aet, host) VALUES (gen_random_uuid(), '%s', 'A', 'h') RETURNING 1"
        with psycopg.connect(url) as connection:
            for name in ("listener", "another"):
                connection.execute((insert % name).encode())
    with serving(tmp_path, url) as site:
        assert site.rows("SELECT listener FROM associations WHERE closed_at IS NULL") == [("another",)]


def test_stop_refuses_new_associations_and_ends_running_ones(tmp_path: Path, url: str) -> None:
    with serving(tmp_path, url) as site:
        assoc, port = associate(site.port), site.port
        site.listener.stop(grace_s=0.1)
        eventually(lambda: not assoc.is_established)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=2)


def test_leftovers_of_a_crash_are_swept_at_start(tmp_path: Path, url: str) -> None:
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "crashed.part").write_bytes(b"half")
    with serving(tmp_path, url) as site:
        assert not site.files("incoming")


def test_dcmtk_sends_a_study(site: Site, test_data: Path) -> None:
    storescu = shutil.which("storescu", path="/usr/bin:/usr/local/bin")  # pynetdicom has a script of the same name
    if storescu is None:
        pytest.skip("DCMTK's storescu is not installed")
    command = [storescu, "-aec", "CTREPORT", "+sd", "127.0.0.1", str(site.port), str(test_data / "chest_lidc_0314")]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    assert site.rows("SELECT count(*) FROM instances") == [(28,)]


def test_more_associations_than_the_limit_are_rejected_and_the_next_is_served_again(tmp_path: Path, url: str) -> None:
    with serving(tmp_path, url, max_associations=1) as site:
        first = associate(site.port)
        ae = AE("TEST")
        ae.add_requested_context(CT)
        assert ae.associate("127.0.0.1", site.port).is_rejected
        first.release()

        def served() -> bool:
            again = ae.associate("127.0.0.1", site.port)
            established = again.is_established
            again.release()
            return established

        eventually(served)


def test_a_silent_peer_is_aborted_after_the_network_timeout(tmp_path: Path, url: str) -> None:
    with serving(tmp_path, url, network_timeout_s=0.3) as site:
        assoc = associate(site.port)
        eventually(lambda: not assoc.is_established)
