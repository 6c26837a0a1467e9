"""Authentication (KIP-152): PLAIN, SCRAM (RFC 5802, KIP-84) and OAUTHBEARER (RFC 7628, KIP-255).

Tokens travel inside SaslAuthenticate, and bare to brokers before 1.0. No error repeats what the client sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from featuregate.blocking import in_daemon_thread
from featuregate.credentials.tokens import fetch_token
from featuregate.errors import AuthenticationFailed, ConnectionLost, UnsupportedVersion
from featuregate.kafka_errors import kafka_error
from featuregate.printable import shown
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

if TYPE_CHECKING:
    from featuregate.config import Sasl
    from featuregate.net.connection import Connection

__all__ = ["authenticate"]

_UNSUPPORTED_MECHANISM: Final = 33
_ILLEGAL_STATE: Final = 34
_MOST_ITERATIONS: Final = 1_000_000
"""The most iterations of SCRAM's hash that a broker may ask for: about a second of CPU. Kafka's default is 4,096."""

Exchange = Callable[[bytes], Awaitable[bytes]]


async def authenticate(connection: Connection, sasl: Sasl, within: float) -> None:
    """Authenticate a negotiated connection.

    A source of tokens may take ``within`` seconds. Raises `AuthenticationFailed` with the broker's
    message, or `NetError` where the connection fails.
    """
    try:
        version = await _handshake(connection, sasl.mechanism)
        exchange = _wrapped(connection, sasl.mechanism) if version else _bare(connection, sasl.mechanism)
        await _MECHANISMS[sasl.mechanism](exchange, sasl, within)
    except _Problem as problem:
        raise AuthenticationFailed(connection.address, sasl.mechanism, str(problem)) from problem.__cause__


class _Problem(Exception):
    """A failure inside a mechanism, which does not know the address."""


async def _handshake(connection: Connection, mechanism: str) -> int:
    """Agree on the mechanism, and return the version: after v0 tokens travel bare."""
    request = SaslHandshakeRequest(mechanism=mechanism)
    try:
        version = connection.version_for(request)
    except UnsupportedVersion as error:
        raise _Problem(f"this listener does not support SASL: see security.protocol ({error})") from error
    response = await connection.request(request)
    if response.error_code == _UNSUPPORTED_MECHANISM:
        enabled = shown(", ".join(response.mechanisms)) or "none"
        raise _Problem(f"the listener does not enable this mechanism; it enables: {enabled}")
    if response.error_code == _ILLEGAL_STATE:
        raise _Problem("the listener does not expect authentication: set security.protocol to PLAINTEXT or SSL")
    if response.error_code:
        raise _Problem(f"the broker answered {kafka_error(response.error_code).name}")
    return version


def _wrapped(connection: Connection, mechanism: str) -> Exchange:
    async def exchange(token: bytes) -> bytes:
        response = await connection.request(SaslAuthenticateRequest(auth_bytes=token))
        if response.error_code:
            name = kafka_error(response.error_code).name
            raise AuthenticationFailed(
                connection.address,
                mechanism,
                f"the broker answered {name}: {shown(response.error_message or 'without a message')}",
            )
        return response.auth_bytes

    return exchange


def _bare(connection: Connection, mechanism: str) -> Exchange:
    async def exchange(token: bytes) -> bytes:
        try:
            return await connection.exchange_token(token)
        except ConnectionLost as error:
            problem = "the broker closed the connection, which is how brokers before 1.0 refuse credentials"
            raise AuthenticationFailed(connection.address, mechanism, problem) from error

    return exchange


async def _plain(exchange: Exchange, sasl: Sasl, _within: float) -> None:
    """RFC 4616."""
    await exchange("\0".join(("", sasl.username, _password(sasl))).encode())


async def _scram(exchange: Exchange, sasl: Sasl, _within: float) -> None:
    """Prove that the client knows the password, and check the broker's proof."""
    from scramp import ScramClient, ScramException  # noqa: PLC0415 - the import takes 100 ms

    try:
        client = ScramClient([sasl.mechanism], sasl.username, _password(sasl))
        server_first = _text(await exchange(client.get_client_first().encode()))
        _check_iterations(server_first)
        client.set_server_first(server_first)
        # The hash takes milliseconds by design, so it runs beside the loop.
        client_final = await in_daemon_thread(client.get_client_final)
        client.set_server_final(_text(await exchange(client_final.encode())))
    except ScramException as error:
        raise _Problem(str(error)) from error


async def _oauthbearer(exchange: Exchange, sasl: Sasl, within: float) -> None:
    """Send the token. A refusal is JSON with the reason, which the client acknowledges before the broker fails it."""
    assert sasl.token is not None
    token = await fetch_token(sasl.token, within)
    extensions = "".join(f"\x01{name}={value}" for name, value in token.extensions)
    reply = await exchange(f"n,,\x01auth=Bearer {token.value.reveal()}{extensions}\x01\x01".encode())
    if not reply:
        return
    detail = ""
    try:
        await exchange(b"\x01")
    except (AuthenticationFailed, ConnectionLost) as error:
        detail = f" ({error.problem})" if error.problem else ""
    raise _Problem(f"the broker refused the token: {shown(_text(reply))}{detail}")


_MECHANISMS: Final = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _oauthbearer,
}


def _password(sasl: Sasl) -> str:
    assert sasl.password is not None
    return sasl.password.reveal()


def _check_iterations(server_first: str) -> None:
    count = next((part[2:] for part in server_first.split(",") if part.startswith("i=")), "")
    if len(count) > len(str(_MOST_ITERATIONS)) or (count.isdecimal() and int(count) > _MOST_ITERATIONS):
        raise _Problem(f"the broker asks for more than {_MOST_ITERATIONS} iterations of the hash")


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError as error:
        raise _Problem("the broker's token is not UTF-8") from error
