"""The exception tree: what each error says, and that it survives a process border."""

import pickle
import re

import pytest

from featuregate import errors
from featuregate.errors import (
    AuthenticationFailed,
    BrokerError,
    ClosedError,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    DiscoveryError,
    FeatureGateError,
    GateClosed,
    HostNameMismatch,
    HostNotAllowed,
    InvalidUpdate,
    LatchStoreCorrupt,
    LatchStoreError,
    LevelsNotReached,
    LocalKafkaError,
    LocalWireError,
    NetError,
    NotPicklable,
    OlderAnswers,
    OtherCluster,
    RefreshTimedOut,
    RelayError,
    RemoteWireError,
    RequirementError,
    SharedAddress,
    TimedOut,
    TlsFailed,
    UnknownApi,
    UnknownHost,
    UnsupportedVersion,
    UpdateRefused,
    UpdateUncertain,
    UsageReportError,
    ViewJsonError,
    WireError,
)

TEXTS: list[tuple[FeatureGateError, str]] = [
    (FeatureGateError("something"), "something"),
    (
        ConfigError("security.protocol", "'SLL' is none of PLAINTEXT, SSL"),
        "security.protocol: 'SLL' is none of PLAINTEXT, SSL",
    ),
    (OtherCluster("b1:9092", "found", "named"), "cluster_id: b1:9092 belongs to cluster found, not to named"),
    (
        RequirementError("group.version>>1", 14, "wanted a number"),
        "wanted a number, at position 14 of 'group.version>>1'",
    ),
    (WireError("something"), "something"),
    (
        LocalWireError("MetadataRequest: version 0 is not one of 1 to 13"),
        "MetadataRequest: version 0 is not one of 1 to 13",
    ),
    (
        UnsupportedVersion("Metadata", (1, 13), (14, 15)),
        "The node does not support Metadata with version in range [1,13]. The supported range is [14,15].",
    ),
    (UnsupportedVersion("Metadata", (1, 13), None), "The node does not support Metadata"),
    (
        RemoteWireError("wanted 4 bytes, 3 left", "MetadataResponse v1: controller_id", 17),
        "MetadataResponse v1: controller_id at byte 17: wanted 4 bytes, 3 left",
    ),
    (NetError("b:9092", "connecting"), "b:9092: the network failed while connecting"),
    (ConnectFailed("b:9092", "connecting", "refused"), "b:9092: failed while connecting: refused"),
    (
        TimedOut("b:9092", "waiting for ApiVersions v5", "nothing for 5 s"),
        "b:9092: timed out while waiting for ApiVersions v5: nothing for 5 s",
    ),
    (TlsFailed("b:9092", "shaking hands", "self-signed"), "b:9092: TLS failed while shaking hands: self-signed"),
    (UnknownHost("b:9092", "resolving the name", "why"), "b:9092: failed while resolving the name: why"),
    (HostNotAllowed("b:9092", "connecting", "why"), "b:9092: not allowed while connecting: why"),
    (HostNameMismatch("b:9092", "in TLS", "it is for 'a'"), "b:9092: TLS failed while in TLS: it is for 'a'"),
    (ConnectionLost("b:9092", "waiting for Metadata v13"), "b:9092: connection lost while waiting for Metadata v13"),
    (
        AuthenticationFailed("b:9092", "PLAIN", "the broker says no"),
        "b:9092: authentication with PLAIN failed: the broker says no",
    ),
    (
        RelayError("http://relay:8080", "the relay answered 503: no view", 1.5),
        "http://relay:8080: the relay answered 503: no view",
    ),
    (SharedAddress("lb:9092", "brokers 1, 2 share the address"), "lb:9092: brokers 1, 2 share the address"),
    (OlderAnswers(25.04), "the source is behind: its answers are 25.0 s older than those of the view at hand"),
    (BrokerError(7, "REQUEST_TIMED_OUT", True), "REQUEST_TIMED_OUT (error 7)"),  # noqa: FBT003 - as pickle calls it
    (BrokerError(999, "UNKNOWN_CODE_999", False, "why"), "UNKNOWN_CODE_999 (error 999): why"),  # noqa: FBT003 - likewise
    (DiscoveryError([]), "no broker answered: the broker list is empty"),
    (
        DiscoveryError([("a:1", ConnectFailed("a:1", "connecting", "refused")), ("b:2", BrokerError(42, "X", False))]),  # noqa: FBT003 - likewise
        "no broker answered: a:1: failed while connecting: refused; b:2: X (error 42)",
    ),
    (
        DiscoveryError([(address, ConnectFailed(address, "connecting", "refused")) for address in ("a:1", "b:2")]),
        "no broker answered: a:1, b:2: failed while connecting: refused",
    ),
    (
        DiscoveryError(
            [("kafka:9092", ConnectFailed("kafka:9092", "resolving the name", "unknown"))], "127.0.0.1:9092"
        ),
        (
            "no broker answered: kafka:9092: failed while resolving the name: unknown; 127.0.0.1:9092 answered, and "
            "lists these addresses: set advertised.listeners of each broker to an address that this machine reaches"
        ),
    ),
    (GateClosed("eos-v2", "broker 1 lacks it"), "gate 'eos-v2' is not open: broker 1 lacks it"),
    (
        NotPicklable("Discoverer", "send the View instead"),
        "a Discoverer cannot be pickled: send the View instead",
    ),
    (ClosedError("the discoverer is closed"), "the discoverer is closed"),
    (LatchStoreError("/latches/abc.json", "no space left"), "/latches/abc.json: no space left"),
    (
        LatchStoreCorrupt("/latches/abc.json", "/latches/abc.json.damaged", "no JSON"),
        (
            "/latches/abc.json: damaged (no JSON); set aside as /latches/abc.json.damaged: "
            "gates that were latched there start afresh"
        ),
    ),
    (RefreshTimedOut(2.5), "no poll has ended within 2.5 s"),
    (UnknownApi("Fecth", ("Fetch",)), "no API is called 'Fecth'; did you mean Fetch?"),
    (UnknownApi("Fecth"), "no API is called 'Fecth'"),
    (UsageReportError("report.gates[0].state", "wanted a text"), "report.gates[0].state: wanted a text"),
    (ViewJsonError("view.epoch", "wanted a number"), "view.epoch: wanted a number"),
    (InvalidUpdate("Cannot specify a negative version level."), "Cannot specify a negative version level."),
    (UpdateRefused("update of cluster c: 1 of 1 refused"), "update of cluster c: 1 of 1 refused"),
    (
        UpdateUncertain("b1:9092: connection lost", {"a": 1, "b": 2}, {"a": 0, "b": None}),
        (
            "the update may or may not have been applied: b1:9092: connection lost. Read back: a is 0 (wanted 1), "
            "b is unknown (wanted 2). Look again with 'featuregate describe' before you repeat it"
        ),
    ),
    (LevelsNotReached(5, ("broker 2 shows a 0",)), "not every broker shows it within 5 s: broker 2 shows a 0"),
    (LocalKafkaError("node 1 did not start", "Exception"), "node 1 did not start\nException"),
    (LocalKafkaError("no Java"), "no Java"),
]


def test_each_error_has_an_example_here() -> None:
    """A new error is tested too: its text, and that it can be pickled."""
    assert {type(error).__name__ for error, _ in TEXTS} == set(errors.__all__)


@pytest.mark.parametrize(("error", "text"), TEXTS, ids=lambda value: type(value).__name__)
def test_each_error_says_what_happened(error: FeatureGateError, text: str) -> None:
    """The text names the place and the problem."""
    assert str(error) == text


@pytest.mark.parametrize("error", [error for error, _ in TEXTS], ids=lambda error: type(error).__name__)
def test_each_error_survives_pickling(error: FeatureGateError) -> None:
    """Class, text and every attribute are the same on the other side."""
    error.add_note("on node 3")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert _attributes(back) == _attributes(error)


def _attributes(error: BaseException) -> dict[str, object]:
    return {name: _plain(value) for name, value in {**vars(error), "args": error.args}.items()}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return repr(value) if isinstance(value, BaseException) else value


def test_the_docstring_draws_the_tree_as_it_is() -> None:
    """The drawing has every error once, below its base."""
    drawn: dict[str, str | None] = {}
    above: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"    ((?:[│ ]   )*(?:[├└]── )?)([A-Z]\w+) {2,}\S", line):
            depth = len(match[1]) // 4
            above[depth] = match[2]
            drawn[match[2]] = above.get(depth - 1)
    real = {
        name: next((base.__name__ for base in cls.__bases__ if issubclass(base, FeatureGateError)), None)
        for name in errors.__all__
        for cls in [getattr(errors, name)]
    }
    assert drawn == real


def test_the_tree_is_exported_whole() -> None:
    """No error hides: each class of the module is in __all__."""
    assert sorted(
        name for name, value in vars(errors).items() if isinstance(value, type) and value.__module__ == errors.__name__
    ) == sorted(errors.__all__)


@pytest.mark.parametrize(
    ("error", "also"), [(ConfigError, ValueError), (RequirementError, ValueError), (NotPicklable, TypeError)]
)
def test_errors_of_a_kind_that_python_knows_are_of_that_kind(error: type, also: type) -> None:
    """Code that expects Python's own error catches ours."""
    assert issubclass(error, also)


def test_an_address_may_be_any_object() -> None:
    """What is kept of an address is its text, so that the error can be pickled wherever it goes."""

    class Address:
        def __str__(self) -> str:
            return "[::1]:9092"

    assert pickle.loads(pickle.dumps(TimedOut(Address(), "connecting"))).address == "[::1]:9092"
