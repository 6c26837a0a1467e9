"""SaslHandshake and SaslAuthenticate."""

import pytest

from featuregate.errors import RemoteWireError
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeResponse


@pytest.mark.parametrize("cls", [SaslAuthenticateRequest, SaslAuthenticateResponse])
def test_invariant_12_a_token_is_never_shown(cls: type[SaslAuthenticateRequest | SaslAuthenticateResponse]) -> None:
    """A token of PLAIN contains the password as plain text."""
    message = cls(auth_bytes=b"\0alice\0wonderland", unknown_tags={1: b"wonderland"})
    assert "wonderland" not in repr(message)
    assert "wonderland" not in str(message)


def test_a_token_of_a_length_that_lies_is_refused() -> None:
    """The decoder allocates no token, and the error does not contain the bytes that are there."""
    with pytest.raises(RemoteWireError, match=r"auth_bytes at byte 4: wanted 2147483647 bytes, 6 left") as caught:
        SaslAuthenticateRequest.decode(0, b"\x7f\xff\xff\xffsecret")
    assert "secret" not in str(caught.value)


def test_a_handshake_is_never_flexible() -> None:
    """A client of any version can read the response."""
    assert not SaslHandshakeResponse.is_flexible(SaslHandshakeResponse.VERSIONS[1])
