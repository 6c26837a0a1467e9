"""Connections that fail, messages that cannot be sent or read, and error codes of brokers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from featuregate.errors.base import FeatureGateError
from featuregate.printable import some


class NetError(FeatureGateError):
    """The connection to one broker failed.

    ``address`` is ``host:port``. ``stage`` is a phrase that follows "while": ``connecting``, ``waiting for ApiVersions
    v4``. ``problem`` has details, or is empty.
    """

    what: ClassVar[str] = "the network failed"

    def __init__(self, address: object, stage: str, problem: str = "") -> None:
        super().__init__(str(address), stage, problem)
        self.address = str(address)
        self.stage = stage
        self.problem = problem

    def __str__(self) -> str:
        text = f"{self.address}: {self.what} while {self.stage}"
        return f"{text}: {self.problem}" if self.problem else text


class ConnectFailed(NetError):
    """The connection could not be opened: the name does not resolve, or the port is closed."""

    what = "failed"


class UnknownHost(ConnectFailed):
    """The name of the broker does not resolve on this machine."""


class HostNotAllowed(ConnectFailed):
    """``featuregate.allowed.hosts`` does not list the host, so nothing was sent to it."""

    what = "not allowed"


class TimedOut(NetError):
    """A time limit expired."""

    what = "timed out"


class TlsFailed(NetError):
    """The TLS handshake failed: certificate, host name or protocol."""

    what = "TLS failed"


class HostNameMismatch(TlsFailed):
    """The certificate is valid, but not for the host that the client connects to."""


class ConnectionLost(NetError):
    """The peer closed or reset the connection before it had answered."""

    what = "connection lost"


class SharedAddress(FeatureGateError):
    """The answer came from an address that several nodes have, and does not prove which of them gave it."""

    def __init__(self, address: object, problem: str) -> None:
        super().__init__(str(address), problem)
        self.address = str(address)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.address}: {self.problem}"


class AuthenticationFailed(FeatureGateError):
    """SASL failed: the broker refused the credentials or the mechanism, or could not prove its identity."""

    def __init__(self, address: object, mechanism: str, problem: str) -> None:
        super().__init__(str(address), mechanism, problem)
        self.address = str(address)
        self.mechanism = mechanism
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.address}: authentication with {self.mechanism} failed: {self.problem}"


_SHOWN = 10
"""Addresses of brokers that fail alike."""
_ADVERTISED = "these addresses: set advertised.listeners of each broker to an address that this machine reaches"


class DiscoveryError(FeatureGateError):
    """No broker answered; ``causes`` holds ``(address, error)`` for each broker, in the order of the requests.

    ``listed_by`` is the address of the node that answered with the list of these brokers, None where no node did.
    """

    def __init__(self, causes: Iterable[tuple[object, BaseException]], listed_by: str | None = None) -> None:
        self.causes: tuple[tuple[str, BaseException], ...] = tuple((str(address), error) for address, error in causes)
        self.listed_by = listed_by
        super().__init__(self.causes, listed_by)

    def __str__(self) -> str:
        if not self.causes:
            return "no broker answered: the broker list is empty"
        addresses: dict[str, list[str]] = {}
        for address, why in self.texts:
            addresses.setdefault(why, []).append(address)
        said = "no broker answered: " + some(
            (f"{_some(where)}: {why}" for why, where in addresses.items()), _SHOWN, "; "
        )
        return said if self.listed_by is None else f"{said}; {self.listed_by} {self.advice}"

    @property
    def advice(self) -> str | None:
        """What to do where the cluster advertises addresses that do not work from here; None where no node answered."""
        return None if self.listed_by is None else f"answered, and lists {_ADVERTISED}"

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """The address of each broker, and its cause as text, without the address."""
        return tuple((address, str(error).removeprefix(f"{address}: ")) for address, error in self.causes)


class RelayError(FeatureGateError):
    """A relay gave no view. ``url`` is its address, ``problem`` says why.

    No request is sent for the next ``rest`` seconds: the relay, or the back-off of this client, wants it so.
    """

    def __init__(self, url: str, problem: str, rest: float = 0.0) -> None:
        super().__init__(url, problem, rest)
        self.url = url
        self.problem = problem
        self.rest = rest

    def __str__(self) -> str:
        return f"{self.url}: {self.problem}"


class OlderAnswers(FeatureGateError):
    """A source returned answers of brokers that are ``seconds`` older than those of the view at hand, which stays."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"the source is behind: its answers are {self.seconds:.1f} s older than those of the view at hand"


def _some(addresses: list[str]) -> str:
    """Return the first of many addresses, and how many there are more."""
    more = len(addresses) - _SHOWN
    return ", ".join(addresses if more <= 0 else [*addresses[:_SHOWN], f"{more} more"])


class WireError(FeatureGateError):
    """Base of the errors of messages: `LocalWireError` is the client's fault, `RemoteWireError` the broker's."""


class LocalWireError(WireError):
    """The client asked for bytes that Kafka does not allow, or used a session in the wrong state."""


class UnsupportedVersion(LocalWireError):
    """The broker and the client have no version of an API in common.

    ``wanted`` is the inclusive range of the client, ``supported`` that of the broker, None where it does not list the
    API. The text is that of Kafka's own client (``NodeApiVersions.latestUsableVersion``).
    """

    def __init__(self, api: str, wanted: tuple[int, int], supported: tuple[int, int] | None) -> None:
        super().__init__(api, wanted, supported)
        self.api = api
        self.wanted = wanted
        self.supported = supported

    def __str__(self) -> str:
        if self.supported is None:
            return f"The node does not support {self.api}"
        lowest, highest = self.wanted
        theirs_lowest, theirs_highest = self.supported
        return (
            f"The node does not support {self.api} with version in range [{lowest},{highest}]. "
            f"The supported range is [{theirs_lowest},{theirs_highest}]."
        )


class RemoteWireError(WireError):
    """The peer sent bytes that do not parse.

    ``field`` names the place in the message, such as ``ApiVersionsResponse v4: finalized_features.name``; ``offset``
    counts bytes from the start of the frame's body, header or length prefix.
    """

    def __init__(self, problem: str, field: str, offset: int) -> None:
        super().__init__(problem, field, offset)
        self.problem = problem
        self.field = field
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.field} at byte {self.offset}: {self.problem}"


class BrokerError(FeatureGateError):
    """The broker answered with an error code.

    ``code``, ``name`` and ``retriable`` are from Kafka's ``Errors.java``; an unknown code is named
    ``UNKNOWN_CODE_999``. ``message`` is the broker's text or advice, or empty. `featuregate.kafka_errors.broker_error`
    makes the error from a code.
    """

    def __init__(self, code: int, name: str, retriable: bool, message: str = "") -> None:  # noqa: FBT001 - pickling passes args by position
        super().__init__(code, name, retriable, message)
        self.code = code
        self.name = name
        self.retriable = retriable
        self.message = message

    def __str__(self) -> str:
        text = f"{self.name} (error {self.code})"
        return f"{text}: {self.message}" if self.message else text
