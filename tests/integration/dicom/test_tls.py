"""DICOM over TLS with real associations, our own client and DCMTK's."""

from __future__ import annotations

import gc
import shutil
import ssl
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from pynetdicom import AE
from pynetdicom.association import Association
from pynetdicom.sop_class import Verification  # type: ignore[attr-defined]  # generated at import

from pipeline.dicom.outlet import Outlet
from pipeline.dicom.tls import Certificates
from pipeline.errors import BadInput
from pipeline.settings import TlsSettings
from tests.builders import ct_slice
from tests.certificates import Authority
from tests.integration.dicom.conftest import CT
from tests.integration.dicom.services import AET, Modality, action, ask, services


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "hospital")


@pytest.fixture
def certificates(authority: Authority, tmp_path: Path) -> Certificates:
    certificate, key = authority.issue(tmp_path, "listener")
    return Certificates(TlsSettings(certificate=certificate, key=key))


def mutual(authority: Authority, folder: Path, required: bool = True) -> Certificates:
    certificate, key = authority.issue(folder, "listener")
    return Certificates(TlsSettings(certificate=certificate, key=key, client_ca=authority.certificate, client_required=required))


def client(authority: Authority, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.certificate)
    context.check_hostname = False
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


def associate(port: int, context: ssl.SSLContext | None, sop_class: str = Verification) -> Association:
    ae = AE("TEST")
    ae.connection_timeout = ae.acse_timeout = ae.dimse_timeout = 10
    ae.add_requested_context(sop_class)
    return ae.associate("127.0.0.1", port, tls_args=(context, "127.0.0.1") if context else None)


def served(port: int, context: ssl.SSLContext | None) -> bool:
    """Whether a peer gets an answer to C-ECHO."""
    assoc = associate(port, context)
    if assoc.is_established:
        answered = bool(assoc.send_c_echo().Status == 0x0000)
        assoc.release()
        return answered
    del assoc
    with warnings.catch_warnings():  # the library leaves its connection to the garbage collector when the handshake fails
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    return False


def test_images_arrive_over_tls(tmp_path: Path, url: str, certificates: Certificates, authority: Authority) -> None:
    with services(tmp_path / "archive", url, tls=certificates.context) as site:
        assert served(site.port, client(authority))
        assoc = associate(site.port, client(authority), CT)
        assert [int(assoc.send_c_store(ct_slice(z_mm=float(z), number=z)).Status) for z in range(3)] == [0x0000] * 3
        assoc.release()
        assert site.rows("SELECT count(*) FROM instances") == [(3,)]


def test_a_peer_that_speaks_plain_is_not_served_and_the_next_one_is(
    tmp_path: Path, url: str, certificates: Certificates, authority: Authority
) -> None:
    with services(tmp_path / "archive", url, tls=certificates.context) as site:
        assert not served(site.port, None)
        assert served(site.port, client(authority))


def test_old_versions_and_weak_suites_are_refused(tmp_path: Path, url: str, certificates: Certificates, authority: Authority) -> None:
    weak = client(authority)
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers("AES128-SHA256:AES256-GCM-SHA384")  # no forward secrecy
    modern = client(authority)
    modern.maximum_version = ssl.TLSVersion.TLSv1_2
    with services(tmp_path / "archive", url, tls=certificates.context) as site:
        assert not served(site.port, weak)
        assert served(site.port, modern)
    names = {suite["name"] for suite in certificates.context().get_ciphers()}
    assert all(name.startswith(("TLS_", "ECDHE-")) and ("GCM" in name or "CHACHA20" in name) for name in names), names
    assert certificates.context().minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_peer_shows_its_certificate_where_it_must(tmp_path: Path, url: str, authority: Authority) -> None:
    known = authority.issue(tmp_path / "known", "modality")
    stranger = Authority(tmp_path / "other", "stranger").issue(tmp_path / "stranger", "modality")
    with services(tmp_path / "archive", url, tls=mutual(authority, tmp_path).context) as site:
        assert not served(site.port, client(authority))
        assert not served(site.port, client(authority, stranger))
        assert served(site.port, client(authority, known))
    with services(tmp_path / "archive", url, tls=mutual(authority, tmp_path, required=False).context) as site:
        assert served(site.port, client(authority))


def test_a_new_certificate_is_served_without_a_restart_and_a_broken_one_is_not(
    tmp_path: Path, url: str, certificates: Certificates, authority: Authority
) -> None:
    successor = Authority(tmp_path / "next", "successor")
    with services(tmp_path / "archive", url, tls=certificates.context) as site:
        assert served(site.port, client(authority))
        old = certificates.context()
        (tmp_path / "listener.pem").write_text("half a certific")
        assert certificates.context() is old
        assert served(site.port, client(authority))
        successor.issue(tmp_path, "listener")
        assert served(site.port, client(successor))
        assert not served(site.port, client(authority))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda pem, key: pem.unlink(), "CTREPORT_TLS_CERTIFICATE: .* cannot be read"),
        (lambda pem, key: key.unlink(), "CTREPORT_TLS_KEY: .* cannot be read"),
        (lambda pem, key: pem.write_text("nonsense"), "no certificate with its unencrypted key"),
        (lambda pem, key: key.write_text(pem.read_text()), "no certificate with its unencrypted key"),
    ],
    ids=["no certificate", "no key", "nonsense", "certificate as key"],
)
def test_files_that_do_not_fit_say_so_at_the_start(
    tmp_path: Path, authority: Authority, spoil: Callable[[Path, Path], object], sentence: str
) -> None:
    certificate, key = authority.issue(tmp_path, "listener")
    spoil(certificate, key)
    with pytest.raises(BadInput, match=sentence):
        Certificates(TlsSettings(certificate=certificate, key=key))


def test_a_key_of_another_certificate_or_with_a_password_is_refused(tmp_path: Path, authority: Authority) -> None:
    certificate, _ = authority.issue(tmp_path, "listener")
    _, other = authority.issue(tmp_path, "other")
    with pytest.raises(BadInput, match="KEY_VALUES_MISMATCH"):
        Certificates(TlsSettings(certificate=certificate, key=other))
    _, locked = authority.issue(tmp_path, "locked", password=b"secret")
    with pytest.raises(BadInput, match="no certificate with its unencrypted key"):
        Certificates(TlsSettings(certificate=certificate, key=locked))


def test_a_commitment_is_reported_to_a_listening_peer_over_tls(
    tmp_path: Path, url: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Outlet, "is_open", False)
    shown, modality = client(authority, authority.issue(tmp_path / "modality", "modality")), Modality()
    listens = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listens.load_cert_chain(*authority.issue(tmp_path / "server", "server"))
    ours = mutual(authority, tmp_path)
    with modality.listening(tls=listens) as port:
        peers: list[dict[str, object]] = [{"aet": AET, "network": "127.0.0.1", "report_to": f"tls://127.0.0.1:{port}"}]
        with services(tmp_path / "archive", url, peers=peers, tls=ours.context, calls=ours.client_context) as site:
            assoc = modality.associate(site.port, tls=shown)
            assert ask(assoc, action("1.2.3", [(CT, "1.2.3.4")])) == 0x0000
            assert modality.heard.wait(10)
            assoc.release()
    assert modality.reports[0].failed == {(CT, "1.2.3.4"): 0x0112}


def test_dcmtk_speaks_tls_with_us(tmp_path: Path, url: str, authority: Authority) -> None:
    echoscu = shutil.which("echoscu", path="/usr/local/bin:/usr/bin")
    if echoscu is None:
        pytest.skip("DCMTK's echoscu is not installed")
    certificate, key = authority.issue(tmp_path / "modality", "modality")
    with services(tmp_path / "archive", url, tls=mutual(authority, tmp_path).context) as site:
        known = [echoscu, "+tls", str(key), str(certificate), "+cf", str(authority.certificate), "-aec", "CTREPORT", "127.0.0.1", str(site.port)]
        anonymous = [echoscu, "+tla", "-ic", "-aec", "CTREPORT", "127.0.0.1", str(site.port)]
        assert subprocess.run(known, timeout=60, capture_output=True, check=False).returncode == 0
        assert subprocess.run(anonymous, timeout=60, capture_output=True, check=False).returncode != 0
