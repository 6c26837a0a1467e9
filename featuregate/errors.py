"""Every error of featuregate.

.. code-block:: text

    FeatureGateError                  the base of them all
    ├── ConfigError                   a setting that we use has a wrong value; also a ValueError
    ├── RequirementError              the text of a requirement does not parse; also a ValueError
    ├── UnknownApi                    no API has this name; also a LookupError
    ├── ViewJsonError                 JSON that is no view; also a ValueError
    ├── InvalidUpdate                 no cluster can be asked for such levels; also a ValueError
    ├── UpdateRefused                 the controller did not agree to all levels; carries what became of each
    ├── UpdateUncertain               no answer tells whether an update was applied: it may or may not have been
    ├── LevelsNotReached                      a broker does not show the levels in time; also a TimeoutError
    ├── WireError                     bytes and messages
    │   ├── LocalWireError            our fault: we asked for bytes that Kafka does not allow
    │   │   └── UnsupportedVersion    the broker has no version of this API in common with us
    │   └── RemoteWireError           the broker's fault: it sent bytes that do not parse
    ├── NetError                      the bytes did not get through
    │   ├── ConnectFailed             no connection: name resolution, refused, unreachable
    │   ├── TimedOut                  a bounded wait ran out
    │   ├── TlsFailed                 the TLS handshake failed
    │   └── ConnectionLost            the peer closed or reset the connection
    ├── AuthenticationFailed          SASL did not succeed
    ├── BrokerError                   the broker understood, and said no
    ├── DiscoveryError                no broker answered; carries the cause of each
    ├── GateClosed                    ``require()`` or a guard met a gate that is not open
    ├── NotPicklable                  this object stays in its process; also a TypeError
    ├── ClosedError                   used after ``close()``
    ├── RefreshTimedOut               no poll has ended in time; also a TimeoutError
    ├── LatchStoreError                    the durable latch could not be read or written
    │   └── LatchStoreCorrupt              what was there does not parse; it has been set aside
    └── LocalKafkaError               real Kafka, for tests: it could not be fetched, started or told what to do

Each survives pickling, so that it can cross process borders: what the constructor was given is ``args``, and the
text is made from it. No error ever carries a password, a token or a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "AuthenticationFailed",
    "BrokerError",
    "ClosedError",
    "ConfigError",
    "ConnectFailed",
    "ConnectionLost",
    "DiscoveryError",
    "FeatureGateError",
    "GateClosed",
    "InvalidUpdate",
    "LatchStoreCorrupt",
    "LatchStoreError",
    "LevelsNotReached",
    "LocalKafkaError",
    "LocalWireError",
    "NetError",
    "NotPicklable",
    "RefreshTimedOut",
    "RemoteWireError",
    "RequirementError",
    "TimedOut",
    "TlsFailed",
    "UnknownApi",
    "UnsupportedVersion",
    "UpdateRefused",
    "UpdateUncertain",
    "ViewJsonError",
    "WireError",
]


class FeatureGateError(Exception):
    """The base of every error that featuregate raises on purpose."""


class ConfigError(FeatureGateError, ValueError):
    """A setting that we use has a value that we cannot use.

    ``key`` is the property as the app spelled it, such as ``security.protocol``; ``problem`` says what is wrong and
    what would be right, and never repeats a secret.
    """

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, problem)
        self.key = key
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}"


class RequirementError(FeatureGateError, ValueError):
    """The text of a requirement does not parse.

    ``position`` is the index into ``text`` of the first character that makes no sense, ``len(text)`` for its end.
    """

    def __init__(self, text: str, position: int, problem: str) -> None:
        super().__init__(text, position, problem)
        self.text = text
        self.position = position
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.problem}, at position {self.position} of {self.text!r}"


class UnknownApi(FeatureGateError, LookupError):
    """No API is called ``name``; ``close`` holds names that look like it, the closest first."""

    def __init__(self, name: str, close: tuple[str, ...] = ()) -> None:
        super().__init__(name, close)
        self.name = name
        self.close = close

    def __str__(self) -> str:
        hint = f"; did you mean {' or '.join(self.close)}?" if self.close else ""
        return f"no API is called {self.name!r}{hint}"


class ViewJsonError(FeatureGateError, ValueError):
    """JSON that is no view; ``where`` is the place in it, such as ``view.brokers[0].port``."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(where, problem)
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class InvalidUpdate(FeatureGateError, ValueError):
    """No cluster can be asked for such levels: nothing was sent."""


class UpdateRefused(FeatureGateError):
    """The controller did not agree to all levels; ``outcome`` says what became of each."""

    def __init__(self, outcome: Any) -> None:
        super().__init__(outcome)
        self.outcome = outcome

    def __str__(self) -> str:
        return str(self.outcome)


class UpdateUncertain(FeatureGateError):
    """An update was sent, and neither its answer nor reading back tells whether it was applied: it may be or not.

    ``problem`` says how the answer was lost or what it said, ``seen`` what reading back gave: the level of each feature
    that is in doubt, None for unknown. ``outcome`` is what the controller answered, None where no answer came.
    """

    def __init__(
        self, problem: str, wanted: Mapping[str, int], seen: Mapping[str, int | None], outcome: Any = None
    ) -> None:
        super().__init__(problem, dict(wanted), dict(seen), outcome)
        self.problem = problem
        self.wanted = dict(wanted)
        self.seen = dict(seen)
        self.outcome = outcome

    def __str__(self) -> str:
        levels = ", ".join(
            f"{feature} is {'unknown' if level is None else level} (wanted {self.wanted[feature]})"
            for feature, level in self.seen.items()
        )
        return (
            f"the update may or may not have been applied: {self.problem}. Read back: {levels}. "
            "Look again with 'featuregate describe' before you repeat it"
        )


class LevelsNotReached(FeatureGateError, TimeoutError):
    """The levels are not shown by every broker within ``seconds``; ``laggards`` says who lags, and how."""

    def __init__(self, seconds: float, laggards: Iterable[str]) -> None:
        self.laggards = tuple(laggards)
        super().__init__(seconds, self.laggards)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"not every broker shows it within {self.seconds:g} s: {'; '.join(self.laggards)}"


class WireError(FeatureGateError):
    """Something about bytes and messages; its two kinds say whose fault it was."""


class LocalWireError(WireError):
    """We asked for bytes that Kafka does not allow, or used a conversation out of turn."""


class UnsupportedVersion(LocalWireError):
    """The broker has no version of this API in common with us.

    ``wanted`` is the inclusive range that we speak; ``supported`` the broker's, None where it does not list the API.
    The text is that of Kafka's own client (``NodeApiVersions.latestUsableVersion``).
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
    counts bytes from the start of what was being read: a frame's body, its header or its length prefix.
    """

    def __init__(self, problem: str, field: str, offset: int) -> None:
        super().__init__(problem, field, offset)
        self.problem = problem
        self.field = field
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.field} at byte {self.offset}: {self.problem}"


class NetError(FeatureGateError):
    """The bytes did not get through to one broker, or back.

    ``address`` is ``host:port``. ``stage`` says what was being done, as a phrase that follows "while": ``connecting``,
    ``waiting for ApiVersions v4``. ``problem`` says more, or is empty.
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
    """No connection: the name does not resolve, or nobody listens there."""

    what = "failed"


class TimedOut(NetError):
    """A bounded wait ran out."""

    what = "timed out"


class TlsFailed(NetError):
    """The TLS handshake failed: certificate, host name or protocol."""

    what = "TLS failed"


class ConnectionLost(NetError):
    """The peer closed or reset the connection before it had answered."""

    what = "connection lost"


class AuthenticationFailed(FeatureGateError):
    """SASL did not succeed: the broker refused the credentials or the mechanism, or could not prove itself."""

    def __init__(self, address: object, mechanism: str, problem: str) -> None:
        super().__init__(str(address), mechanism, problem)
        self.address = str(address)
        self.mechanism = mechanism
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.address}: authentication with {self.mechanism} failed: {self.problem}"


class BrokerError(FeatureGateError):
    """The broker understood the request, and said no.

    ``code`` and ``name`` are Kafka's (``Errors.java``; a code that we do not know is named ``UNKNOWN_CODE_999``),
    ``retriable`` is Kafka's judgement too, and ``message`` is the broker's text or our advice, or empty.
    `featuregate.kafka_errors.broker_error` fills it in from a code.
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


class DiscoveryError(FeatureGateError):
    """No broker answered; ``causes`` holds ``(address, error)`` for each one that was asked, in the order asked."""

    def __init__(self, causes: Iterable[tuple[object, BaseException]]) -> None:
        self.causes: tuple[tuple[str, BaseException], ...] = tuple((str(address), error) for address, error in causes)
        super().__init__(self.causes)

    def __str__(self) -> str:
        if not self.causes:
            return "no broker answered: there was none to ask"
        addresses: dict[str, list[str]] = {}
        for address, error in self.causes:
            addresses.setdefault(_reason(address, error), []).append(address)
        return "no broker answered: " + "; ".join(f"{', '.join(where)}: {why}" for why, where in addresses.items())

    @property
    def texts(self) -> tuple[str, ...]:
        """Each cause in words, with its address in front."""
        return tuple(f"{address}: {_reason(address, error)}" for address, error in self.causes)


def _reason(address: str, error: BaseException) -> str:
    """Give an error's text without the address, which it may have in front."""
    return str(error).removeprefix(f"{address}: ")


class GateClosed(FeatureGateError):
    """A gate that had to be open is not; ``decision`` says why, broker by broker."""

    def __init__(self, gate: str, decision: Any) -> None:
        super().__init__(gate, decision)
        self.gate = gate
        self.decision = decision

    def __str__(self) -> str:
        return f"gate {self.gate!r} is not open: {self.decision}"


class NotPicklable(FeatureGateError, TypeError):
    """An object that holds threads or sockets stays in its process; ``instead`` says what to send."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(what, instead)
        self.what = what
        self.instead = instead

    def __str__(self) -> str:
        return f"a {self.what} cannot be pickled: {self.instead}"


class ClosedError(FeatureGateError):
    """It was used after ``close()``."""


class LatchStoreError(FeatureGateError):
    """The durable latch at ``place`` could not be read or written."""

    def __init__(self, place: object, problem: str) -> None:
        super().__init__(str(place), problem)
        self.place = str(place)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


class LatchStoreCorrupt(LatchStoreError):
    """The durable latch at ``place`` does not parse. It is kept at ``aside`` for people to read."""

    def __init__(self, place: object, aside: object, problem: str) -> None:
        super().__init__(place, problem)
        self.args = (str(place), str(aside), problem)
        self.aside = str(aside)

    def __str__(self) -> str:
        return (
            f"{self.place}: damaged ({self.problem}); set aside as {self.aside}: "
            "gates that were latched there start afresh"
        )


class RefreshTimedOut(FeatureGateError, TimeoutError):
    """No poll has ended within ``seconds``; the poll loop goes on trying."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"no poll has ended within {self.seconds:g} s"


class LocalKafkaError(FeatureGateError):
    """Real Kafka, for tests, could not be fetched, started or told what to do; ``log`` is the end of what it said."""

    def __init__(self, problem: str, log: str = "") -> None:
        super().__init__(problem, log)
        self.problem = problem
        self.log = log

    def __str__(self) -> str:
        return f"{self.problem}\n{self.log}" if self.log else self.problem
