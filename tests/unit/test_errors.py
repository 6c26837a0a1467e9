"""The exception tree: what each error says, and that it survives a process border."""

import pickle
import re
from pathlib import Path

import pytest

from featuregate import errors

ERRORS = (
    errors.FeatureGateError("something"),
    errors.ConfigError("security.protocol", "'SLL' is none of PLAINTEXT, SSL"),
    errors.OtherCluster("b1:9092", "found", "named"),
    errors.RequirementError("group.version>>1", 14, "wanted a number"),
    errors.WireError("something"),
    errors.LocalWireError("MetadataRequest: version 0 is not one of 1 to 13"),
    errors.UnsupportedVersion("Metadata", (1, 13), (14, 15)),
    errors.UnsupportedVersion("Metadata", (1, 13), None),
    errors.RemoteWireError("wanted 4 bytes, 3 left", "MetadataResponse v1: controller_id", 17),
    errors.NetError("b:9092", "connecting"),
    errors.ConnectFailed("b:9092", "connecting", "refused"),
    errors.TimedOut("b:9092", "waiting for ApiVersions v5", "nothing for 5 s"),
    errors.TlsFailed("b:9092", "shaking hands", "self-signed"),
    errors.UnknownHost("b:9092", "resolving the name", "why"),
    errors.HostNotAllowed("b:9092", "connecting", "why"),
    errors.HostNameMismatch("b:9092", "in TLS", "it is for 'a'"),
    errors.ConnectionLost("b:9092", "waiting for Metadata v13"),
    errors.AuthenticationFailed("b:9092", "PLAIN", "the broker says no"),
    errors.RelayError("http://relay:8080", "the relay answered 503: no view", 1.5),
    errors.SharedAddress("lb:9092", "brokers 1, 2 share the address"),
    errors.OlderAnswers(25.04),
    errors.BrokerError(7, "REQUEST_TIMED_OUT", True),  # noqa: FBT003 - as pickle calls it
    errors.BrokerError(999, "UNKNOWN_CODE_999", False, "why"),  # noqa: FBT003 - as pickle calls it
    errors.DiscoveryError([]),
    errors.DiscoveryError(
        [("a:1", errors.ConnectFailed("a:1", "connecting", "refused")), ("b:2", errors.BrokerError(42, "X", False))]  # noqa: FBT003 - likewise
    ),
    errors.DiscoveryError(
        [(address, errors.ConnectFailed(address, "connecting", "refused")) for address in ("a:1", "b:2")]
    ),
    errors.DiscoveryError(
        [("kafka:9092", errors.ConnectFailed("kafka:9092", "resolving the name", "unknown"))], "127.0.0.1:9092"
    ),
    errors.GateClosed("eos-v2", "broker 1 lacks it"),
    errors.NotPicklable("Discoverer", "send the View instead"),
    errors.ClosedError("the discoverer is closed"),
    errors.LatchStoreError("/latches/abc.json", "no space left"),
    errors.LatchStoreCorrupt("/latches/abc.json", "/latches/abc.json.damaged", "no JSON"),
    errors.RefreshTimedOut(2.5),
    errors.UnknownApi("Fecth", ("Fetch",)),
    errors.UnknownApi("Fecth"),
    errors.UsageReportError("report.gates[0].state", "wanted a text"),
    errors.ViewJsonError("view.epoch", "wanted a number"),
    errors.InvalidUpdate("Cannot specify a negative version level."),
    errors.UpdateRefused("update of cluster c: 1 of 1 refused"),
    errors.UpdateUncertain("b1:9092: connection lost", {"a": 1, "b": 2}, {"a": 0, "b": None}),
    errors.LevelsNotReached(5, ("broker 2 shows a 0",)),
    errors.LocalKafkaError("node 1 did not start", "Exception"),
    errors.LocalKafkaError("no Java"),
)


def test_each_error_has_an_example_here() -> None:
    """A new error is tested too: its text, and that it can be pickled."""
    assert {type(error).__name__ for error in ERRORS} == set(errors.__all__)


def test_each_error_says_what_happened() -> None:
    """The text names the place and the problem: compared whole with ``errors.txt``."""
    said = [f"{type(error).__name__}\n{error}\n" for error in ERRORS]
    assert "\n".join(said) == Path(__file__).with_name("errors.txt").read_text()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_each_error_survives_pickling(error: errors.FeatureGateError) -> None:
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
        name: next((base.__name__ for base in cls.__bases__ if issubclass(base, errors.FeatureGateError)), None)
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
    ("error", "also"),
    [(errors.ConfigError, ValueError), (errors.RequirementError, ValueError), (errors.NotPicklable, TypeError)],
)
def test_errors_of_a_kind_that_python_knows_are_of_that_kind(error: type, also: type) -> None:
    """Code that expects Python's own error catches ours."""
    assert issubclass(error, also)


def test_an_address_may_be_any_object() -> None:
    """What is kept of an address is its text, so that the error can be pickled wherever it goes."""

    class Address:
        def __str__(self) -> str:
            return "[::1]:9092"

    assert pickle.loads(pickle.dumps(errors.TimedOut(Address(), "connecting"))).address == "[::1]:9092"
