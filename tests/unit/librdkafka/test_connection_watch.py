"""When a producer may have sent a request twice, and what of its log the app gets."""

import logging

import pytest

from featuregate_librdkafka.connection_watch import SLOW_SECONDS, ConnectionWatch

FORMAT = "%s [%s] %s"
CLOSED = "TxnCoordinator: 127.0.0.1:9092: Disconnected: connection closed by peer (after 907ms in state UP)"


class Lines:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, str]] = []

    def log(self, level: int, msg: str, /, *args: object) -> None:
        self.seen.append((level, msg % args))


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.mark.parametrize(
    ("facility", "text", "doubted"),
    [
        ("FAIL", CLOSED, True),
        ("FAIL", "127.0.0.1:9092/1: 1 request(s) timed out: disconnect (after 10012ms in state UP)", True),
        ("FAIL", "127.0.0.1:9092/1: Receive failed: reset by peer (after 7ms in state REAUTH)", True),
        ("FAIL", "a text that no release has used so far", True),
        ("REQTMOUT", "127.0.0.1:9092/1: Timed out EndTxnRequest in flight (after 10012ms, timeout #0)", True),
        ("FAIL", "127.0.0.1:9092/1: Connect to ipv4#127.0.0.1:9092 failed (after 0ms in state CONNECT)", False),
        ("FAIL", "127.0.0.1:9092/1: Disconnected (after 44ms in state APIVERSION_QUERY)", False),
        ("FAIL", "127.0.0.1:9092/1: SASL authentication error (after 44ms in state AUTH_REQ)", False),
        ("GETPID", "Failed to acquire transactional PID: retrying", False),
    ],
)
def test_a_lost_connection_that_had_requests_is_a_doubt(
    lines: Lines, facility: str, text: str, *, doubted: bool
) -> None:
    """A broker that is away, or a login that fails, is none: no request of a transaction was sent."""
    watch = ConnectionWatch(lines)
    watch.log(logging.INFO, FORMAT, facility, "rdkafka#producer-1", text)
    assert watch.doubt == (text if doubted else None)
    assert lines.seen == [(logging.INFO, f"{facility} [rdkafka#producer-1] {text}")]


def test_the_first_doubt_is_kept(lines: Lines) -> None:
    """It is the reason that the log gives for the new producer."""
    watch = ConnectionWatch(lines)
    watch.took(SLOW_SECONDS / 2)
    assert watch.doubt is None
    watch.took(SLOW_SECONDS)
    watch.log(logging.INFO, FORMAT, "FAIL", "rdkafka#producer-1", CLOSED)
    assert watch.doubt == "the end of a transaction took 5.0 s"


@pytest.mark.parametrize(
    ("config", "level", "logged"),
    [
        ({}, logging.INFO, True),
        ({}, logging.DEBUG, False),
        ({"log_level": 3}, logging.INFO, False),
        ({"log_level": "3"}, logging.ERROR, True),
        ({"log_level": 7}, logging.DEBUG, True),
        ({"log_level": 3.0}, logging.INFO, False),
        ({"log_level": " +3"}, logging.INFO, False),
        ({"log_level": "0x3"}, logging.INFO, False),
        ({"log_level": 3, "debug": "eos"}, logging.DEBUG, True),
        ({"log.connection.close": "False"}, logging.WARNING, False),
        ({"log.connection.close": False}, logging.ERROR, True),
    ],
)
def test_the_app_gets_the_log_that_it_asked_for(
    lines: Lines, config: dict[str, object], level: int, *, logged: bool
) -> None:
    """The client logs the end of connections all the same."""
    watch = ConnectionWatch(lines)
    made = watch.config(config)
    assert (made["logger"], made["log.connection.close"], made["log_level"] in {6, 7}) == (watch, True, True)
    watch.log(level, FORMAT, "FAIL", "rdkafka#producer-1", CLOSED)
    assert (bool(lines.seen), watch.doubt) == (logged, CLOSED)


def test_a_level_that_librdkafka_refuses_is_left_to_it(lines: Lines) -> None:
    """Its error names the property."""
    assert ConnectionWatch(lines).config({"log_level": "much"})["log_level"] == "much"
