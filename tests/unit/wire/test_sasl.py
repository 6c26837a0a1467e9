"""SaslHandshake and SaslAuthenticate."""

from __future__ import annotations

import pytest

from featuregate.errors import RemoteWireError
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeResponse


@pytest.mark.parametrize("cls", [SaslAuthenticateRequest, SaslAuthenticateResponse])
def test_invariant_9_a_token_is_never_shown(cls: type[SaslAuthenticateRequest | SaslAuthenticateResponse]) -> None:
    """The token of PLAIN holds the password in the clear."""
    message = cls(auth_bytes=b"\0alice\0wonderland", unknown_tags={1: b"wonderland"})
    assert "wonderland" not in repr(message)
    assert "wonderland" not in str(message)


def test_a_token_of_a_length_that_lies_is_refused() -> None:
    """Nothing is made of it, and what is there is not shown."""
    with pytest.raises(RemoteWireError, match=r"auth_bytes at byte 4: wanted 2147483647 bytes, 6 left") as caught:
        SaslAuthenticateRequest.decode(0, b"\x7f\xff\xff\xffsecret")
    assert "secret" not in str(caught.value)


def test_a_handshake_is_never_flexible() -> None:
    """Any client reads any answer."""
    assert not SaslHandshakeResponse.is_flexible(SaslHandshakeResponse.VERSIONS[1])
