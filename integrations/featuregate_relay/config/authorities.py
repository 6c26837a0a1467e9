"""Files of certificates with which the relay checks others, read while the configuration is."""

from __future__ import annotations

import ssl
from pathlib import Path  # noqa: TC003 - as in tables
from typing import Annotated

from pydantic import AfterValidator

from featuregate_relay.config.tables import FilePath


def _readable(file: Path) -> Path:
    """Return the file; raises ValueError where no certificate can be read: each request would fail for it."""
    try:
        if not file.is_dir():
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError:
        raise ValueError("has no certificate that can be read: give a file in PEM") from None
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    return file


CaFile = Annotated[FilePath, AfterValidator(_readable)]
"""A file, or a folder, of certificates."""
