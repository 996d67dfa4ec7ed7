"""The list of peers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.dicom.access import Access, plain_address
from pipeline.dicom.peer import Address
from pipeline.settings import AccessSettings

LIST = [
    {"network": "10.0.0.0/8", "mb_per_s": 5},
    {"aet": "CT1", "network": "10.1.0.0/16", "mb_per_s": 50, "report_to": "10.1.2.3:104"},
    {"aet": "CT6", "network": "2001:db8::/32", "report_to": "tls://[2001:db8::7]:2762"},
]


def access(folder: Path, peers: object = None) -> Access:
    return Access(AccessSettings.model_validate({"peers": peers}), "CTREPORT", folder)


@pytest.mark.parametrize(
    ("host", "admitted"),
    [
        ("10.9.9.9", True),
        ("::ffff:10.9.9.9", True),
        ("2001:db8::1%eth0", True),
        ("11.0.0.1", False),
        ("::1", False),
        ("", False),
        ("nonsense", False),
    ],
)
def test_a_host_is_admitted_from_a_listed_network_only(tmp_path: Path, host: str, admitted: bool) -> None:
    assert access(tmp_path, LIST).admits(host) is admitted


def test_without_a_list_everyone_is_admitted_and_with_an_empty_one_nobody(tmp_path: Path) -> None:
    assert access(tmp_path).admits("192.0.2.1")
    assert not access(tmp_path, []).admits("127.0.0.1")


def test_the_entry_that_names_the_title_goes_before_the_one_for_any(tmp_path: Path) -> None:
    room = access(tmp_path, LIST)
    assert room.bytes_per_s("10.1.0.1", "CT1") == 50e6
    assert room.bytes_per_s("10.1.0.1", "CT2") == 5e6
    assert room.bytes_per_s("10.2.0.1", "CT1") == 5e6
    assert room.bytes_per_s("192.0.2.1", "CT1") is None


def test_addresses_for_reports_are_read_with_and_without_tls(tmp_path: Path) -> None:
    room = access(tmp_path, LIST)
    assert room.report_to("CT1") == Address("10.1.2.3", 104)
    assert room.report_to("CT6") == Address("2001:db8::7", 2762)
    assert room.report_to("CT2") is None


@pytest.mark.parametrize(
    "peer", [{"network": "10.0.0.1/8"}, {}, {"network": "10.0.0.0/8", "report_to": "nowhere"}, {"network": "10.0.0.0/8", "ae": "X"}]
)
def test_an_entry_that_cannot_be_meant_stops_the_start(peer: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        AccessSettings.model_validate({"peers": [peer]})


def test_the_list_is_read_from_the_environment_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTREPORT_ACCESS_PEERS", '[{"aet": "CT1", "network": "10.1.0.0/16", "report_to": "ct1:104"}]')
    [peer] = AccessSettings().peers or ()
    assert peer.report_to is not None
    assert (peer.aet, str(peer.network), peer.report_to.host, peer.report_to.port) == ("CT1", "10.1.0.0/16", "ct1", 104)
    monkeypatch.setenv("CTREPORT_ACCESS_PEERS", "")
    assert AccessSettings().peers is None


def test_an_address_is_compared_as_what_it_is() -> None:
    assert str(plain_address("::ffff:192.0.2.1")) == "192.0.2.1"
    assert plain_address("host.example") is None
