"""Authentication (KIP-152): PLAIN, SCRAM (RFC 5802, KIP-84), OAUTHBEARER (RFC 7628, KIP-255) and GSSAPI (RFC 4752).

Tokens travel inside SaslAuthenticate, and bare to brokers before 1.0. No error repeats what the client sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from featuregate.budgets import MOST_ITERATIONS
from featuregate.credentials.kerberos import KerberosError, KerberosLogin
from featuregate.credentials.tokens import fetch_token
from featuregate.errors import AuthenticationFailed, ConnectionLost, TimedOut, UnsupportedVersion
from featuregate.kafka_errors import kafka_error
from featuregate.loops.short_loop import running_loop
from featuregate.printable import shown
from featuregate.wire.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

if TYPE_CHECKING:
    from featuregate.config import Address
    from featuregate.config.sasl import Sasl
    from featuregate.net.connection import Connection

_UNSUPPORTED_MECHANISM: Final = 33
_ILLEGAL_STATE: Final = 34
_FEWEST_ITERATIONS: Final = 4096
"""As in Kafka's own client (``ScramMechanism.java``): after a few, a false broker can guess the password."""
_DELEGATION: Final = ",tokenauth=true"
"""The extension of SCRAM's first message for a delegation token (KIP-48)."""
_OFFER, _NO_LAYER = 4, 1
"""Bytes of the offer of security layers, and the bit for none (RFC 4752, section 3.3)."""

Exchange = Callable[[bytes], Awaitable[bytes]]


class _Dialogue(NamedTuple):
    """What a mechanism knows of the connection."""

    exchange: Exchange
    address: Address
    """The broker, as the client connects to it."""
    within: float
    """Seconds that a token endpoint or a KDC may take."""
    framed: bool
    """Whether tokens travel inside SaslAuthenticate."""


async def authenticate(connection: Connection, sasl: Sasl, within: float) -> None:
    """Authenticate a negotiated connection.

    A source of tokens or a KDC may take ``within`` seconds. Raises `AuthenticationFailed` with the broker's
    message, or `NetError` where the connection fails.
    """
    try:
        version = await _handshake(connection, sasl.mechanism)
        exchange = _wrapped(connection, sasl.mechanism) if version else _bare(connection, sasl.mechanism)
        dialogue = _Dialogue(exchange, connection.address, within, framed=version > 0)
        await _MECHANISMS[sasl.mechanism](dialogue, sasl)
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


async def _plain(dialogue: _Dialogue, sasl: Sasl) -> None:
    """RFC 4616."""
    await dialogue.exchange("\0".join(("", sasl.username, _password(sasl))).encode())


async def _scram(dialogue: _Dialogue, sasl: Sasl) -> None:
    """Prove that the client knows the password, and check the broker's proof."""
    from scramp import ScramClient, ScramException  # noqa: PLC0415 - the import takes 100 ms

    try:
        client = ScramClient([sasl.mechanism], sasl.username, _password(sasl))
        client_first = client.get_client_first()
        if sasl.delegation_token:
            client_first += _DELEGATION
            client.client_first_bare += _DELEGATION  # the proofs cover it
        server_first = _text(await dialogue.exchange(client_first.encode()))
        _check_iterations(server_first)
        client.set_server_first(server_first)
        # The hash takes milliseconds by design, so it runs beside the loop.
        client_final = await running_loop().in_thread(client.get_client_final)
        client.set_server_final(_text(await dialogue.exchange(client_final.encode())))
    except ScramException as error:
        raise _Problem(shown(str(error))) from error
    except (ValueError, TypeError) as error:  # of numbers and characters that scramp does not expect
        raise _Problem("the broker's message is not one of SCRAM") from error


async def _oauthbearer(dialogue: _Dialogue, sasl: Sasl) -> None:
    """Send the token. A refusal is JSON with the reason, which the client acknowledges before the broker fails it."""
    assert sasl.token is not None
    token = await fetch_token(sasl.token, dialogue.within)
    extensions = "".join(f"\x01{name}={value}" for name, value in token.extensions)
    reply = await dialogue.exchange(f"n,,\x01auth=Bearer {token.value.reveal()}{extensions}\x01\x01".encode())
    if not reply:
        return
    detail = ""
    try:
        await dialogue.exchange(b"\x01")
    except (AuthenticationFailed, ConnectionLost) as error:
        detail = f" ({error.problem})" if error.problem else ""
    raise _Problem(f"the broker refused the token: {shown(_text(reply))}{detail}")


async def _gssapi(dialogue: _Dialogue, sasl: Sasl) -> None:
    """Establish a Kerberos context, and agree on no security layer, since Kafka has none."""
    assert sasl.kerberos is not None
    kerberos, host = sasl.kerberos, dialogue.address.host
    if not dialogue.framed:
        raise _Problem("brokers before 1.0 end this mechanism without an answer, which featuregate does not support")
    loop = running_loop()
    try:
        try:
            async with loop.timeout(dialogue.within):
                login = await loop.in_thread(lambda: KerberosLogin(kerberos, host))
                token = await loop.in_thread(lambda: login.step(None))
        except TimeoutError:
            problem = f"no answer of the KDC within {dialogue.within:g} s"
            raise TimedOut(dialogue.address, "waiting for Kerberos", problem) from None
        while not login.complete:
            reply = await dialogue.exchange(token)
            token = login.step(reply)
        offer = login.unwrap(await dialogue.exchange(token))
        await dialogue.exchange(login.wrap(_layer(offer)))
    except KerberosError as error:
        raise _Problem(str(error)) from error


def _layer(offer: bytes) -> bytes:
    """Choose from the broker's offer: a bit for each security layer, and the size of its buffer in three bytes."""
    if len(offer) != _OFFER or not offer[0] & _NO_LAYER:
        raise _Problem("the broker requires a security layer of SASL, which Kafka does not have")
    return bytes([_NO_LAYER, 0, 0, 0])


_MECHANISMS: Final = {
    "GSSAPI": _gssapi,
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
    if len(count) > len(str(MOST_ITERATIONS)) or (count.isdecimal() and int(count) > MOST_ITERATIONS):
        raise _Problem(f"the broker asks for more than {MOST_ITERATIONS} iterations of the hash")
    if count.isdecimal() and int(count) < _FEWEST_ITERATIONS:
        raise _Problem(f"the broker asks for fewer than {_FEWEST_ITERATIONS} iterations of the hash, as no Kafka does")


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError as error:
        raise _Problem("the broker's token is not UTF-8") from error
