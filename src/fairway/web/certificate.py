"""`ReloadedCertificate`: the page's TLS certificate and key, loaded again when their files change.

cert-manager and kubelets replace both files by swapping a symbolic link. A new pair is loaded into a context of its own
and used for handshakes from then on; one that cannot be used leaves the old pair in place, with a warning.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from fairway.app.live.logs import RunLog
from fairway.errors import InputError

INTERVAL = 5.0
"""Seconds between two looks at the files."""

_Fingerprint = tuple[tuple[int, int, int], ...]


class ReloadedCertificate:
    """`context` is for the server: each handshake gets the newest pair."""

    def __init__(self, certificate: str, key: str, log: RunLog) -> None:
        """InputError where the first pair cannot be used."""
        self._paths = Path(certificate), Path(key)
        self._log = log
        try:
            self._seen = self._fingerprint()
            self._current = self._load()
        except OSError as error:  # ssl.SSLError is one
            raise InputError(f"the page's certificate {certificate} with the key {key}: {_why(error)}") from None
        self.context = self._current
        # Called for every handshake, whether or not the client names a server.
        self.context.sni_callback = self._use_newest

    def check(self) -> None:
        """Load the files again if they have changed."""
        try:
            found = self._fingerprint()
            if found == self._seen:
                return
            self._seen = found
            self._current = self._load()
        except OSError as error:
            self._log.warning("the page's new certificate cannot be used, the old one stays in use", why=_why(error))
        else:
            self._log.info("the page's certificate was loaded again")

    def _use_newest(self, handshake: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        handshake.context = self._current

    def _fingerprint(self) -> _Fingerprint:
        stats = [path.stat() for path in self._paths]
        return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        certificate, key = self._paths
        # Without a callback OpenSSL would ask for the passphrase of an encrypted key on the terminal.
        context.load_cert_chain(certificate, key, password=lambda: "")
        return context


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not a certificate with its key ({error.reason or error})"
    return str(error.strerror or error)
