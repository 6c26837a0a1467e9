"""Two states of a cluster, before and after a step."""

import pytest

pytest.importorskip("confluent_kafka", reason="an extra")

from featuregate.admin.effects import ConfigValue
from featuregate.rehearsal.runbook import StepFinding
from featuregate.rehearsal.state import PROTOCOL, StateKey, compare

ELR = "eligible.leader.replicas.version"
MIN_INSYNC = StateKey("config", "broker 1", "min.insync.replicas")
RETENTION = StateKey("config", "broker 1", "log.retention.hours")


OF_TOPIC, DYNAMIC, OF_CLUSTER, PROPERTIES, DEFAULT = range(1, 6)
Value = ConfigValue | str | None


def judged(key: StateKey, before: Value, after: Value, moved: dict[str, tuple[int, int]] | None = None) -> str:
    """Return the verdict of one difference; nothing where nobody has to look at it."""
    values = [ConfigValue(value) if isinstance(value, str) else value for value in (before, after)]
    states = [{} if value is None else {key: value} for value in values]
    findings, _ = compare(states[0], states[1], moved or {})
    return findings[0].verdict if findings else ""


def test_a_value_that_a_level_lowers_blocks() -> None:
    """The table of effects has it for the level, and only for it."""
    values = ConfigValue("2", PROPERTIES), ConfigValue("1", OF_CLUSTER)
    assert judged(MIN_INSYNC, *values, {ELR: (0, 1)}) == "block"
    assert judged(MIN_INSYNC, *values) == "warn"
    assert judged(MIN_INSYNC, ConfigValue("1", DEFAULT), ConfigValue("1", OF_CLUSTER), {ELR: (0, 1)}) == "warn"


def test_brokers_with_the_same_difference_share_a_line() -> None:
    """The line says that the table does not have it."""
    keys = [RETENTION._replace(where=f"broker {node}") for node in (1, 2, 3)]
    states = [dict.fromkeys(keys, ConfigValue(value, PROPERTIES)) for value in ("9", "8")]
    findings, _ = compare(states[0], states[1], {})
    said = "config log.retention.hours of broker 1, broker 2, broker 3: 9 (in its properties) -> 8 (in its properties)"
    assert findings == [StepFinding("warn", f"{said}, which the table of effects does not have")]


def test_defaults_of_a_release_that_come_and_go_are_counted() -> None:
    new = RETENTION._replace(name="new.config")
    findings, seen = compare({RETENTION: ConfigValue("9", DEFAULT)}, {new: ConfigValue("1", DEFAULT)}, {})
    assert findings == []
    assert seen == ["1 configs of brokers are new in this release", "1 configs of brokers are gone in this release"]


GROUP, OFFSET = StateKey("group", "billing", "type"), StateKey("offset", "billing", "orders-0")
ACL = StateKey("acl", "TOPIC orders (LITERAL)", "ALLOW READ User:alice from *")
LEVEL = StateKey("level", "the cluster", "group.version")


@pytest.mark.parametrize(
    ("key", "before", "after", "verdict"),
    [
        (RETENTION, None, ConfigValue("9", PROPERTIES), ""),
        (RETENTION, None, ConfigValue("9", OF_CLUSTER), "warn"),
        (RETENTION, ConfigValue("9", DEFAULT), ConfigValue("8", DEFAULT), "warn"),
        (RETENTION, ConfigValue("9", PROPERTIES), None, "warn"),
        (RETENTION._replace(name=PROTOCOL), ConfigValue("2.4", PROPERTIES), ConfigValue("2.8", PROPERTIES), ""),
        (OFFSET, "5", "6", ""),
        (OFFSET, None, "0", ""),
        (OFFSET, "5", "4", "block"),
        (OFFSET, "5", None, "block"),
        (GROUP, "classic", None, "block"),
        (GROUP, "unknown", None, "block"),
        (GROUP, None, "classic", ""),
        (GROUP, "unknown", "classic", ""),
        (GROUP, "classic", "consumer", "warn"),
        (ACL, "there", None, "block"),
        (ACL, None, "there", "warn"),
        (LEVEL, None, "0", ""),
        (LEVEL, None, "1", "block"),
        (LEVEL, "1", "0", "block"),
    ],
)
def test_what_nobody_has_to_look_at_is_what_apps_at_work_and_releases_do(
    key: StateKey, before: Value, after: Value, verdict: str
) -> None:
    """A group may be new and an offset rise alone; brokers before 3.8 do not say the type of a group."""
    assert judged(key, before, after) == verdict


def test_only_the_level_that_a_step_moves_may_move() -> None:
    assert judged(LEVEL, "0", "1", {"group.version": (0, 1)}) == ""
    assert judged(LEVEL, "1", "0", {"transaction.version": (0, 2)}) == "block"
