"""The options of the switch: names, types and defaults.

:class:`SwitchOptions` is a ``TypedDict`` for ``**options: Unpack[SwitchOptions]`` (PEP 692): type checkers know each
name and its type, also where a class of yours passes them on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict

from featuregate import BrokerSource, Discoverer, UsageReporter
from featuregate.config.providers import without_placeholders
from featuregate.errors import ConfigError

if TYPE_CHECKING:
    import os

    from featuregate_confluent.events import SwitchHook
    from featuregate_confluent.latch.protocol import Partition
    from featuregate_confluent.models import Model


def partition_transactional_id(app_id: str, partition: Partition) -> str:
    """Name the transactional id of an input partition: ``billing:orders-0``.

    An id is stable, so that a producer fences the one before it with the same id. Topics and process names have neither
    of the separators ``:`` and ``/``, so the last one ends the app id: no two apps have an id in common.
    """
    return f"{app_id}:{partition[0]}-{partition[1]}"


def process_transactional_id(app_id: str, process: str) -> str:
    """Name the transactional id of a process: ``billing/host-0``."""
    return f"{app_id}/{process}"


class _Required(TypedDict):
    consumer: Mapping[str, Any]
    """The properties that the app would give confluent-kafka. Those that exactly-once needs are added; one that
    contradicts it raises."""
    producer: Mapping[str, Any]
    """As ``consumer``."""
    topics: Sequence[str]
    """What to subscribe to; regular expressions begin with ``^``."""
    app_id: str
    """The name of the app, the same in all its processes: transactional ids begin with it. Apps that share a
    cluster have different ones, also where they read the same topics."""


class SwitchOptions(_Required, total=False):
    """The parameters of :class:`~featuregate_confluent.ProducerSwitch`."""

    features: Discoverer | None
    """The discoverer to ask about the cluster; by default one of its own, which is closed with the switch. It must
    discover the cluster that the consumer is connected to: the cluster ids are compared."""
    model: str | Model | None
    """``"auto"``, or ``"legacy"``, ``"bridge"`` or ``"v2"`` to pin one."""
    instance_id: str | None
    """The name of this process among its siblings, the same after a restart; by default the consumer's
    ``group.instance.id``."""
    state_dir: str | os.PathLike[str] | None
    """A folder of this machine: numbers the processes that have no instance id, and keeps the gate's latch."""
    latch_topic: str | None
    """A compacted topic that keeps the group's latch too, against offsets that expire or are reset."""
    metrics: SwitchHook | None
    """Called with each :data:`~featuregate_confluent.events.SwitchEvent`."""
    interval: float
    """Seconds between polls of the cluster, where ``features`` is not given."""
    usage_topic: str | None
    """The topic that takes :doc:`usage reports </reference/views>`, such as ``featuregate-usage``, where
    ``features`` is not given. Reports have a producer of their own, which takes the connection properties of
    ``producer``. Off by default."""
    group_interval: float
    """Seconds between looks at the group, while it is on its way to v2."""
    name_of: Callable[[str, Partition], str]
    """Makes the transactional id of an input partition: pass your own if the app was exactly-once before."""


DEFAULTS: Final = {
    "features": None,
    "model": "auto",
    "instance_id": None,
    "state_dir": None,
    "latch_topic": None,
    "metrics": None,
    "interval": 15.0,
    "usage_topic": None,
    "group_interval": 3.0,
    "name_of": partition_transactional_id,
}
"""What holds where an option is not given."""

_KINDS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "consumer": (lambda value: isinstance(value, Mapping), "a mapping of properties"),
    "producer": (lambda value: isinstance(value, Mapping), "a mapping of properties"),
    "app_id": (lambda value: isinstance(value, str), "a text"),
    "instance_id": (lambda value: value is None or isinstance(value, str), "a text"),
    "features": (lambda value: value is None or hasattr(value, "gate"), "a Discoverer"),
    "metrics": (lambda value: value is None or callable(value), "a function"),
    "name_of": (callable, "a function"),
}
"""What a value must be, as a function and in words."""


def complete(given: SwitchOptions) -> SwitchOptions:
    """Return all options, with the defaults of those that are not given. Raises TypeError, ConfigError.

    Placeholders of ``config.providers`` have their values, since librdkafka would send the placeholders.
    """
    missing = sorted(SwitchOptions.__required_keys__ - given.keys())
    if missing:
        raise TypeError(f"missing {', '.join(map(repr, missing))}")
    unknown = sorted(given.keys() - SwitchOptions.__required_keys__ - DEFAULTS.keys())
    if unknown:
        raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")
    values: Mapping[str, object] = given
    for name, (fits, wanted) in _KINDS.items():
        if name in values and not fits(values[name]):
            raise ConfigError(name, f"must be {wanted}, not a {type(values[name]).__name__}")
    for name in ("instance_id", "latch_topic", "usage_topic"):
        if isinstance(text := values.get(name), str) and not text.strip():
            raise ConfigError(name, "is empty, as a variable is that was not set: give a name, or leave it out")
    if not given["app_id"]:
        raise ConfigError("app_id", "must not be empty: transactional ids begin with it")
    topics = values["topics"]
    if not (isinstance(topics, list | tuple) and topics and all(isinstance(topic, str) for topic in topics)):
        raise ConfigError("topics", f"must be a list of at least one topic, not {topics!r}")
    if given.get("usage_topic") and given.get("features"):
        raise ConfigError("usage_topic", "is for a discoverer of the switch's own: give 'features' a UsageReporter")
    require_seconds("group_interval", given.get("group_interval", 1))
    clients = {name: without_placeholders(given[name]) for name in ("consumer", "producer")}
    return {**DEFAULTS, **given, **clients}  # type: ignore[typeddict-item]  # mypy does not see that these are complete


def require_seconds(name: str, value: object) -> None:
    """Return if the value is a number of seconds; raise `ConfigError` otherwise."""
    if type(value) not in {int, float} or not 0 < float(str(value)) < float("inf"):
        raise ConfigError(name, f"must be a number of seconds above 0, not {value!r}")


def make_discoverer(options: SwitchOptions, *, instance: str | None) -> Discoverer:
    """Return a discoverer, which reports to ``usage_topic`` where there is one; ``instance`` names this process."""
    from featuregate_librdkafka.usage_topic import SOFTWARE, UsageTopic  # noqa: PLC0415 - it loads the client

    usage = None
    if topic := options["usage_topic"]:
        sender = UsageTopic(dict(options["producer"]), topic)
        usage = UsageReporter(sender, app=options["app_id"], instance=instance, software=SOFTWARE)
    return Discoverer(
        source=BrokerSource(dict(options["consumer"])),
        interval=options["interval"],
        latch_store=options["state_dir"],
        usage=usage,
    )
