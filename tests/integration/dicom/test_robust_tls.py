"""A listener that speaks TLS among peers that do not, or do it badly: the accept loop never waits for them."""

from __future__ import annotations

import contextlib
import ssl
import time
from pathlib import Path

from pipeline.dicom.tls import Certificates
from pipeline.settings import TlsSettings
from tests.certificates import Authority
from tests.integration.dicom.attacks import GOOD_RQ, STORE, TIMEOUT_S, ended, level, said
from tests.integration.dicom.conftest import eventually
from tests.integration.dicom.images import made
from tests.integration.dicom.services import services
from tests.integration.dicom.test_robust_pdus import WITHIN_ASSOCIATION
from tests.wire import CT, EXPLICIT_LE, IMPLICIT_LE, VERIFICATION, Peer, connect

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
BADLY = (b"", HELLO, HELLO + bytes(505), HELLO + b"\xff" * 505, GOOD_RQ, GOOD_RQ + STORE, b"\x15\x03\x01\x00\x02\x02\x28", b"\x80" * 65_536)


def stored(port: int, tls: ssl.SSLContext, number: int) -> int:
    """The status of a good image over TLS."""
    image = made(number, "tls")
    with Peer(port, image.kind, tls=tls) as peer:
        status = image.sent(peer)
        peer.release()
    return status


def test_bad_handshakes_and_wrong_words_within_tls_are_ended_while_good_peers_are_served(tmp_path: Path, url: str) -> None:
    authority = Authority(tmp_path, "hospital")
    certificate, key = authority.issue(tmp_path, "listener")
    served = Certificates(TlsSettings(certificate=certificate, key=key))
    tls = ssl.create_default_context(cafile=authority.certificate)
    tls.check_hostname = False
    with services(tmp_path / "archive", url, tls=served.context, network_timeout_s=TIMEOUT_S) as site:
        assert stored(site.port, tls, 0) == 0x0000
        eventually(lambda: level(site.port).connections == 0)
        before = level(site.port)
        socks = [said(site.port, words) for words in BADLY * 2]
        begun = time.monotonic()
        assert stored(site.port, tls, 1) == 0x0000
        assert time.monotonic() - begun < 4 * TIMEOUT_S, "a good peer waited for the bad ones"
        for words in WITHIN_ASSOCIATION.values():
            peer = Peer(site.port, (CT, EXPLICIT_LE), (VERIFICATION, IMPLICIT_LE), tls=tls)
            socks.append(said(peer.socket, words))
        socks.append(connect(site.port, tls=tls))
        for sock in socks:
            with contextlib.suppress(ssl.SSLError):
                ended(sock)
        assert stored(site.port, tls, 2) == 0x0000
        eventually(lambda: level(site.port).within(before))
