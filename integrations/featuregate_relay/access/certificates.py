"""The certificates of the listener, which are renewed while it listens."""

from __future__ import annotations

import ssl
from pathlib import Path

from featuregate.logs import get_logger
from featuregate.printable import printable

logger = get_logger("featuregate")


class Certificates:
    """A certificate and its key, and who signs the certificates that clients must have; raises OSError."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._pair = (certificate, key)
        self._client_ca = client_ca
        self._versions = self._changed_at()
        self._newest = self.context = self._load()
        self.context.sni_callback = self._use_newest

    def renew(self) -> None:
        """Load the files for new connections if they have changed. Files that do not fit change nothing."""
        try:
            versions = self._changed_at()
            if versions == self._versions:
                return
            self._newest = self._load()
        except OSError as error:  # also of ssl; perhaps one file of two has been written
            logger.warning("the renewed certificate cannot be used: %s", printable(str(error)))
        else:
            self._versions = versions
            logger.info("the certificate has been renewed")

    def _use_newest(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _first: ssl.SSLContext) -> None:
        """Use the newest context: the listener keeps its first one, from which no authority can be removed."""
        connection.context = self._newest

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._pair)
        if self._client_ca is not None:
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
            # A session that goes on would not look at the certificate of the client again.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context

    def _changed_at(self) -> tuple[int, ...]:
        files = self._pair if self._client_ca is None else (*self._pair, self._client_ca)
        return tuple(file.stat().st_mtime_ns for file in files)
