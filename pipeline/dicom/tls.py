"""DICOM over TLS by the BCP 195 profile (PS3.15 Annex B, RFC 9325): TLS 1.2 with ECDHE and AEAD, or 1.3; certificates are read again when
their files change, without a restart."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import log
from pipeline.errors import BadInput

if TYPE_CHECKING:
    from pipeline.settings import TlsSettings

logger = log.get(__name__)
# Those of TLS 1.2; TLS 1.3 has only AEAD suites with forward secrecy.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:!aPSK"
Signature = tuple[tuple[int, int, int], ...]  # (mtime_ns, size, inode) of each file


class Certificates:
    """Our certificate, its key, and whom we trust. Thread-safe."""

    def __init__(self, settings: TlsSettings) -> None:
        """Raises BadInput for files that cannot be read or do not fit together."""
        if settings.certificate is None:
            raise BadInput("CTREPORT_TLS_CERTIFICATE is not set: give a PEM file, or serve without TLS")
        self._certificate, self._key = settings.certificate, settings.key or settings.certificate
        self._client_ca, self._client_required = settings.client_ca, settings.client_required
        self._lock = threading.Lock()
        self._signature = self._read_signature()
        self._server, self._client = self._build()

    def context(self) -> ssl.SSLContext:
        """The context for connections that peers open, from the files as they are now; a broken new file leaves the old context in force."""
        with self._lock:
            self._refresh()
            return self._server

    def client_context(self) -> ssl.SSLContext:
        """The context for connections that we open: we show our certificate and trust CTREPORT_TLS_CLIENT_CA, else the system's authorities."""
        with self._lock:
            self._refresh()
            return self._client

    def _refresh(self) -> None:
        try:
            signature = self._read_signature()
            if signature == self._signature:
                return
            self._signature = signature  # a broken pair is tried once, and again when a file changes
            self._server, self._client = self._build()
        except BadInput as error:
            logger.error("certificate_not_reloaded", reason=str(error))
        else:
            logger.info("certificate_reloaded")

    def _files(self) -> list[tuple[str, Path]]:
        files = [("CTREPORT_TLS_CERTIFICATE", self._certificate), ("CTREPORT_TLS_KEY", self._key)]
        return files if self._client_ca is None else [*files, ("CTREPORT_TLS_CLIENT_CA", self._client_ca)]

    def _read_signature(self) -> Signature:
        found = []
        for name, path in self._files():
            try:
                with path.open("rb"):
                    status = path.stat()
            except OSError as error:
                raise BadInput(f"{name}: '{path}' cannot be read ({error.strerror}); name a PEM file that this user may read") from None
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(found)

    def _build(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for context in (server, client):
            _harden(context)
            self._show_ours(context)
        client.check_hostname = False  # modalities' certificates name no address; the chain is what is checked
        if self._client_ca is None:
            client.load_default_certs()
        else:
            self._trust(server, self._client_ca)
            self._trust(client, self._client_ca)
            server.verify_mode = ssl.CERT_REQUIRED if self._client_required else ssl.CERT_OPTIONAL
        return server, client

    def _show_ours(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self._certificate, self._key, password=lambda: "")  # never ask on a terminal
        except (ssl.SSLError, OSError, ValueError) as error:
            cause = error.reason if isinstance(error, ssl.SSLError) and error.reason else type(error).__name__
            files = f"'{self._certificate}' and '{self._key}'"
            raise BadInput(f"{files} are no certificate with its unencrypted key ({cause}); give PEM files that belong together") from None

    def _trust(self, context: ssl.SSLContext, authorities: Path) -> None:
        try:
            context.load_verify_locations(authorities)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise BadInput(f"CTREPORT_TLS_CLIENT_CA: '{authorities}' holds no certificates ({type(error).__name__}); give a PEM file") from None


def _harden(context: ssl.SSLContext) -> None:
    """RFC 9325 sections 3 and 4: versions, suites, no compression, no renegotiation, no static session tickets."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
