"""A certificate authority for one cluster, with certificates for its brokers and one client, as PEM files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.version import how_to_install

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("localhost", "127.0.0.1")


def issue_certificates(folder: Path) -> None:
    """Write ``ca.pem``, ``broker.pem`` (key and certificate), ``client.crt`` and ``client.key`` into a folder.

    The brokers' certificate is for localhost and 127.0.0.1. Raises ImportError where the extra ``testing`` is not
    installed.
    """
    try:
        import trustme  # noqa: PLC0415 - an extra, needed only for TLS
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - comes with trustme
    except ImportError as error:
        raise ImportError(f"TLS listeners need trustme: {how_to_install('testing')}") from error

    def pkcs8(certificate: trustme.LeafCert) -> bytes:
        """Kafka reads private keys in PKCS 8 alone (KIP-651); trustme writes the older form."""
        key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
        return key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    authority = trustme.CA()
    broker, client = authority.issue_cert(*NAMES), authority.issue_cert("client.featuregate.test", common_name="client")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    contents = {
        "broker.pem": pkcs8(broker) + b"".join(blob.bytes() for blob in broker.cert_chain_pems),
        "client.crt": b"".join(blob.bytes() for blob in client.cert_chain_pems),
        "client.key": pkcs8(client),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
