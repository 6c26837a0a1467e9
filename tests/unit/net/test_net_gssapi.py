"""GSSAPI: the exchange around Kerberos, whose library a test replaces. Live tests have the real one and a real KDC."""

from __future__ import annotations

import enum
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from featuregate.errors import AuthenticationFailed, ConfigError, FeatureGateError, TimedOut
from featuregate.net import cluster_metadata
from featuregate.net.connection import Connection
from featuregate.version import how_to_install
from featuregate.wire.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


class GSSError(Exception):
    """The library's error: codes whose texts it looks up."""

    def __init__(self, maj_code: int = 1, min_code: int = 2) -> None:
        super().__init__("hunter2")
        self.maj_code, self.min_code = maj_code, min_code

    def get_all_statuses(self, code: int, *, is_maj: bool) -> list[str]:
        """Return the texts of a code."""
        return [f"{'major' if is_maj else 'minor'} {code}"]


class Flags(enum.IntFlag):
    """What a context may be asked for."""

    mutual_authentication = 2
    integrity = 32


class Library(ModuleType):
    """The parts of gssapi that are used, over a KDC that a test sets."""

    exceptions = SimpleNamespace(GSSError=GSSError)
    RequirementFlag = Flags
    NameType = SimpleNamespace(hostbased_service="service", kerberos_principal="principal")
    MechType = SimpleNamespace(kerberos="kerberos")

    def __init__(self) -> None:
        super().__init__("gssapi")
        self.mutual = True
        self.steps: list[bytes | None] = []
        self.names: list[tuple[str, str]] = []
        self.stores: list[object] = []
        self.fail_at: str | None = None
        self.kdc = threading.Event()
        self.kdc.set()

    def Name(self, text: str, kind: str) -> tuple[str, str]:  # noqa: N802 - the library's name
        """Make a name."""
        self.names.append((text, kind))
        return text, kind

    def Credentials(self, *, name: object, usage: str, mechs: list[str], store: object) -> str:  # noqa: N802 - likewise
        """Find credentials."""
        assert (usage, mechs) == ("initiate", ["kerberos"])
        self.stores.append(store)
        if self.fail_at == "stores":
            raise NotImplementedError
        if self.fail_at == "credentials":
            raise GSSError(min_code=0)
        return f"credentials of {name}"

    def SecurityContext(self, **options: Any) -> Context:  # noqa: N802 - likewise
        """Begin."""
        assert options["usage"] == "initiate"
        return Context(self)


class Context:
    """Complete after the broker's token."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.complete = False

    @property
    def actual_flags(self) -> Flags:
        """What the context has."""
        return Flags.integrity | (Flags.mutual_authentication if self._library.mutual else Flags(0))

    def step(self, token: bytes | None) -> bytes | None:
        """Take a token."""
        assert self._library.kdc.wait(60)
        self._library.steps.append(token)
        if self._library.fail_at == f"step {len(self._library.steps)}":
            raise GSSError
        self.complete = token is not None
        return None if self.complete else b"first"

    def unwrap(self, message: bytes) -> SimpleNamespace:
        """Check the broker's signature."""
        if not message.startswith(b"signed "):
            raise GSSError
        return SimpleNamespace(message=message.removeprefix(b"signed "))

    def wrap(self, message: bytes, *, encrypt: bool) -> SimpleNamespace:
        """Sign."""
        assert not encrypt
        return SimpleNamespace(message=b"mine " + message)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """Replace gssapi."""
    library = Library()
    monkeypatch.setitem(sys.modules, "gssapi", library)
    return library


ANSWERS = {b"first": b"theirs", b"": b"signed \x07\x00\xff\xff", b"mine \x01\x00\x00\x00": b""}


@pytest.fixture
def login(serve: Any, fake_node: Any, settings_for: Any) -> Any:
    """Authenticate with a broker that answers tokens by a table, and return the tokens that it got."""

    async def run(
        answers: dict[bytes, bytes] = ANSWERS, ranges: Any = None, bounds: Any = None, **config: object
    ) -> list[bytes]:
        node = fake_node(ranges)
        node.says[SaslHandshakeRequest] = lambda *_: SaslHandshakeResponse(mechanisms=("GSSAPI",))

        def answer(request: SaslAuthenticateRequest, _: int) -> SaslAuthenticateResponse:
            token = answers.get(request.auth_bytes)
            if token is None:
                return SaslAuthenticateResponse(error_code=58, error_message="no")
            return SaslAuthenticateResponse(auth_bytes=token)

        node.says[SaslAuthenticateRequest] = answer
        address = await serve(node)
        config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", **config}
        settings = settings_for(address, config=config, **(bounds or {}))
        with await Connection.open(address, settings) as connection:
            await connection.negotiate()
            await cluster_metadata.authenticate(connection, settings)
        return [request.auth_bytes for request, _ in node.asked if isinstance(request, SaslAuthenticateRequest)]

    return run


async def failure(login: Any, **options: Any) -> FeatureGateError:
    """Return the error of a failed login: one line that does not repeat the library's error."""
    with pytest.raises(FeatureGateError) as caught:
        await login(**options)
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)
    return caught.value


async def test_no_security_layer_is_agreed_on(library: Library, login: Any) -> None:
    """The broker offers layers and a size, and the client chooses none, without a size (RFC 4752)."""
    assert await login() == list(ANSWERS)
    assert library.steps == [None, b"theirs"]
    assert library.names == [("kafka@127.0.0.1", "service")]
    assert library.stores == []


async def test_the_service_and_the_keytab_are_those_of_the_app(library: Library, login: Any) -> None:
    """Tickets of a keytab stay in memory."""
    await login(sasl_kerberos_service_name="s", sasl_kerberos_domain_name="b.example", **{"sasl.kerberos.keytab": "/k"})
    assert library.names == [("s@b.example", "service"), ("kafkaclient", "principal")]
    assert library.stores == [{"client_keytab": "/k", "ccache": "MEMORY:featuregate kafkaclient /k"}]


async def test_a_ticket_cache_is_that_of_the_app(library: Library, login: Any) -> None:
    """Java's login module names it."""
    jaas = 'com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache="/t";'
    await login(**{"sasl.jaas.config": jaas})
    assert library.stores == [{"ccache": "/t"}]


OFFERS = [b"\x06\x00\xff\xff", b"\x01", b"", b"\x01\0\0\0\0"]
KEYTAB = {"sasl.kerberos.keytab": "/k"}


def answering(offer: bytes) -> dict[str, Any]:
    return {"answers": {**ANSWERS, b"": offer}}


@pytest.mark.parametrize(
    ("world", "options", "says"),
    [
        ({"fail_at": "credentials"}, KEYTAB, "Kerberos failed: major 1: see sasl.kerberos.keytab and its principal"),
        (
            {"fail_at": "step 1"},
            KEYTAB,
            "minor 2: see sasl.kerberos.keytab and its principal (the service is kafka@127.0.0.1)",
        ),
        ({"fail_at": "step 2"}, KEYTAB, "minor 2: see sasl.kerberos.keytab"),
        # the Kerberos of macOS has no credential stores
        ({"fail_at": "stores"}, KEYTAB, "leave it out, and run kinit"),
        # there is no keytab to look at
        ({"fail_at": "step 1"}, {}, "run kinit, or set sasl.kerberos.keytab"),
        # the client asks for mutual authentication, and checks that it has it
        ({"mutual": False}, {}, "the broker did not show who it is"),
        # somebody in between could have removed the layers
        ({}, answering(b"\x01\x00\x00\x00"), "Kerberos failed: minor 2"),
        # Kafka has no layer that a broker could require; a broken offer is one
        *(({}, answering(b"signed " + offer), "requires a security layer") for offer in OFFERS),
        # a principal may not be allowed
        ({}, {"answers": {b"first": b"theirs"}}, "SASL_AUTHENTICATION_FAILED: no"),
        # their last token has no answer
        ({}, {"ranges": {0: (0, 2), 3: (0, 5), 17: (0, 0), 18: (0, 1)}}, "brokers before 1.0"),
    ],
)
async def test_a_login_that_fails_is_told(
    library: Library, login: Any, world: dict[str, Any], options: dict[str, Any], says: str
) -> None:
    vars(library).update(world)
    error = await failure(login, **options)
    assert says in str(error)
    assert isinstance(error, AuthenticationFailed)


async def test_a_kdc_that_hangs_costs_one_timeout(library: Library, login: Any) -> None:
    """The library waits in a thread of its own."""
    library.kdc.clear()
    error = await failure(login, bounds={"request_timeout": 0.2})
    library.kdc.set()
    assert isinstance(error, TimedOut)
    assert error.address.startswith("127.0.0.1:")
    assert "no answer of the KDC within 0.2 s" in str(error)


async def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, login: Any) -> None:
    """The core does not install it."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    error = await failure(login)
    assert isinstance(error, ConfigError)
    assert f"{how_to_install('kerberos')}" in str(error)
