"""PEM text in every form that Java reads (KIP-651)."""

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from featuregate.config import Settings
from featuregate.errors import ConfigError
from featuregate.net.tls import context_for

AUTHORITY = trustme.CA()
CLIENT = AUTHORITY.issue_cert("client.featuregate.test")
ROOT = AUTHORITY.cert_pem.bytes().decode()
KEY = serialization.load_pem_private_key(CLIENT.private_key_pem.bytes(), None)
CHAIN = "".join(pem.bytes().decode() for pem in CLIENT.cert_chain_pems)


def key(password: str = "") -> str:
    """Return the client's private key in PKCS8, which is encrypted with a password."""
    how: Any = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    pem = KEY.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
    return pem.decode()


def on_one_line(pem: str, blank: str = " ") -> str:
    """Return PEM text with blanks in place of its line breaks."""
    return pem.strip().replace("\n", blank)


def context(tmp_path: Path, **texts: str) -> ssl.SSLContext:
    """Return the context of a properties file with these texts."""
    lines = [f"{name.replace('_', '.')}={text}" for name, text in texts.items()]
    path = tmp_path / "client.properties"
    path.write_text("\n".join(["bootstrap.servers=a", "security.protocol=SSL", *lines]) + "\n")
    tls = Settings.parse(path).tls
    assert tls is not None
    return context_for(tls)


@pytest.mark.parametrize("joint", [" ", " \\\n", "\\n", "\\r\\n", "  ", "\\n\\\n", ""])
@pytest.mark.parametrize("password", ["", "hush"])
def test_pem_text_of_a_properties_file_is_read(tmp_path: Path, joint: str, password: str) -> None:
    """Its lines are joined by blanks, by backslashes at their ends, by escaped line breaks, or by nothing."""
    found = context(
        tmp_path,
        ssl_truststore_type="PEM",
        ssl_truststore_certificates=on_one_line(ROOT, joint),
        ssl_keystore_certificate_chain=on_one_line(CHAIN, joint),
        ssl_keystore_key=on_one_line(key(password), joint),
        **({"ssl_key_password": f"{password} "} if password else {}),
    )
    assert found.get_ca_certs(binary_form=True) == [ssl.PEM_cert_to_DER_cert(ROOT)]


def test_every_certificate_of_a_line_is_read(tmp_path: Path) -> None:
    """A bundle may be one line."""
    other = trustme.CA().cert_pem.bytes().decode()
    found = context(tmp_path, ssl_truststore_certificates=on_one_line(ROOT + other))
    assert len(found.get_ca_certs()) == len((ROOT, other))


def test_a_file_with_one_line_is_read(tmp_path: Path) -> None:
    store = tmp_path / "client.pem"
    store.write_text(on_one_line(key() + CHAIN))
    context(tmp_path, ssl_keystore_location=str(store), ssl_keystore_type="PEM")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ROOT.partition("\n")[0], "no -----END line that fits .* the last ends with a backslash"),
        (on_one_line(ROOT, "\\\\n"), "has a backslash and an n where a line ends"),
        (
            "-----BEGIN X-----\n" * 30_000,
            "no -----END line that fits",
        ),  # two minutes where each begin searches to the end
        ("-----BEGIN X----- Proc-Type: 4,ENCRYPTED AAAA -----END X-----", "on one line whose headers do not end"),
    ],
)
def test_an_error_says_where_pem_text_broke(tmp_path: Path, text: str, problem: str) -> None:
    """Java refuses these texts, too."""
    with pytest.raises(ConfigError, match=problem):
        context(tmp_path, ssl_truststore_certificates=text)


def test_headers_stay_where_the_text_has_lines(tmp_path: Path) -> None:
    """An old encrypted key has its parameters in headers."""
    old = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.BestAvailableEncryption(b"hush"),
    ).decode()
    assert "DEK-Info" in old
    file = tmp_path / "key.pem"
    file.write_text(old)
    chain = on_one_line(CHAIN)
    context(tmp_path, ssl_certificate_pem=chain, ssl_key_location=str(file), ssl_key_password="hush")
