"""What errors of TLS mean for a Kafka client, and what to do."""

from __future__ import annotations

import ssl

_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})
"""OpenSSL's X509_V_ERR codes for a chain without a trusted authority."""
_EXPIRED, _NOT_YET = 10, 9
_OTHER_NAME = frozenset({62, 64})
"""The host name or the IP address is not in the certificate."""
_ADVICE = (
    (
        ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"),
        "this listener does not speak TLS: set security.protocol to PLAINTEXT or SASL_PLAINTEXT",
    ),
    (
        ("UNSUPPORTED_PROTOCOL", "PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE"),
        "the peer does not support TLS 1.2 or newer",
    ),
    (
        ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "HANDSHAKE_FAILURE"),
        "the peer requires a client certificate that it trusts: set ssl.certificate.location and ssl.key.location",
    ),
    (
        ("ALERT_UNKNOWN_CA", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED"),
        "the peer does not accept the client certificate: see ssl.certificate.location",
    ),
)
"""What OpenSSL's reasons mean for a Kafka client, and what to do."""


def explain(error: Exception) -> str:
    """Return what a failed handshake means and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error)
    if not isinstance(error, ssl.SSLError):
        return (
            "the peer closed the connection: does this listener speak TLS (see security.protocol), "
            "and does it require a client certificate (see ssl.certificate.location)?"
        )
    reason = reason_of(error)
    advice = (text for words, text in _ADVICE if any(word in reason for word in words))
    return " ".join(filter(None, [next(advice, ""), f"({reason})"]))


def _explain_certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _UNKNOWN_ISSUER:
        return (
            f"the certificate is not signed by a trusted authority ({error.verify_message}): "
            "set ssl.ca.location to the certificate of the authority that signed it"
        )
    if error.verify_code in {_EXPIRED, _NOT_YET}:
        return f"{error.verify_message}: renew the certificate of the broker, or set the clock of this machine"
    return str(error.verify_message)


def is_mismatch(error: ssl.SSLError) -> bool:
    """Return whether the certificate is valid, but for another host."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in _OTHER_NAME


def reason_of(error: Exception) -> str:
    """Return OpenSSL's name of what failed, or the text of the error."""
    return getattr(error, "reason", None) or str(error)
