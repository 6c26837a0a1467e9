"""What differs between two views, one thing at a time, each readable as a sentence.

An epoch that merely moved is not a difference (invariant 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from featuregate.catalog import api_name, level_name
from featuregate.view.cluster_view import View, broker_content, lagging

if TYPE_CHECKING:
    from featuregate.view.answers import BrokerAnswer, BrokerConfig

K = TypeVar("K")
V = TypeVar("V")

Kind = Literal[
    "cluster",
    "role",
    "broker_list",
    "level",
    "supported",
    "api",
    "broker came",
    "broker went",
    "broker silent",
    "broker returned",
    "broker changed",
]
_SHOWN = 3


class Difference(NamedTuple):
    """One thing that is another one now."""

    kind: Kind
    subject: str
    """What it is about: a feature, an API, a broker; empty for the cluster as a whole."""
    before: object
    """The value before: a cluster id, a level, a range, a broker answer. None: nothing, or unknown."""
    after: object
    text: str

    def __str__(self) -> str:
        return self.text


def differences(before: View, after: View) -> tuple[Difference, ...]:
    """List what differs; empty if and only if ``before.same_content(after)``.

    The cluster comes first, with its id, levels, supported ranges and API ranges, then its brokers.
    """
    return (
        *_whole(before, after),
        *_levels(before, after),
        *_ranges("supported", before.supported, after.supported, str, after),
        *_ranges("api", before.api_ranges, after.api_ranges, api_name, after),
        *_brokers(before, after),
    )


def _whole(was: View, now: View) -> Iterator[Difference]:
    if was.cluster_id != now.cluster_id:
        text = f"this is another cluster, {now.cluster_id} (was {was.cluster_id}): everything starts afresh"
        yield Difference("cluster", "", was.cluster_id, now.cluster_id, text)
    if was.role != now.role:
        yield Difference("role", "", was.role, now.role, f"{now.role}s are asked (were {was.role}s)")
    if was.broker_list != now.broker_list:
        names = {"cluster": "the cluster names its brokers", "bootstrap": "the bootstrap list names the brokers"}
        yield Difference("broker_list", "", was.broker_list, now.broker_list, names[now.broker_list])


def _levels(was: View, now: View) -> Iterator[Difference]:
    if (was.epoch < 0) != (now.epoch < 0):
        text = f"finalized features are {'known' if was.epoch < 0 else 'unknown'} now"
        yield Difference("level", "", None, None, text)
    for feature in sorted({*was.finalized, *now.finalized}):
        before, after = was.level(feature), now.level(feature)
        if before != after:
            text = f"{feature} is finalized at {_level(feature, after)} (was {_level(feature, before)})"
            yield Difference("level", feature, before, after, text)


def _ranges(
    kind: Kind, was: Mapping[K, tuple[int, int]], now: Mapping[K, tuple[int, int]], name: Callable[[K], str], view: View
) -> Iterator[Difference]:
    verb = "serve" if kind == "api" else "can run"
    # While a broker is silent the ranges are those of the others, which may look better than they are.
    who = f"all {view.role}s that answer" if view.missing else f"all {view.role}s"
    for key, before, after in _differing(was, now):
        said = f"{who} {verb} {name(key)} {_range(after)}" if after else f"not {who} {verb} {name(key)}"
        yield Difference(kind, name(key), before, after, f"{said} (was {_range(before)})")


def _brokers(was: View, now: View) -> Iterator[Difference]:
    """Tell brokers apart by id and address: one that moved went, and came."""
    were = {_place(broker): broker for broker in was.brokers}
    are = {_place(broker): broker for broker in now.brokers}
    for place, after in are.items():
        before = were.pop(place, None)
        if before is None:
            silent = "" if after.failure is None else f", and does not answer: {after.failure.text}"
            yield Difference("broker came", after.name, None, after, f"{after.name} came{silent}")
        elif broker_content(was, before) != broker_content(now, after):
            yield _moved(before, after, _lag(was, before), _lag(now, after))
    for gone in were.values():
        yield Difference("broker went", gone.name, gone, None, f"{gone.name} went")


def _lag(view: View, broker: BrokerAnswer) -> list[str]:
    """Yield the levels that a broker reports from before the last change."""
    return [f"{name} {_level(name, level)}" for name, level in lagging(view, broker).items()]


def _moved(was: BrokerAnswer, now: BrokerAnswer, lagged: list[str], lags: list[str]) -> Difference:
    if now.failure is not None:
        return Difference("broker silent", now.name, was, now, f"{now.name} does not answer: {now.failure.text}")
    if was.failure is not None:
        return Difference("broker returned", now.name, was, now, f"{now.name} answers again")
    apis = [f"{api_name(key)} {_range(after)}" for key, _, after in _differing(was.api_ranges, now.api_ranges)]
    runs = [f"{name} {_range(after)}" for name, _, after in _differing(was.supported, now.supported)]
    said = [*_some("serves", apis, "API ranges"), *_some("can run", runs, "supported ranges")]
    if lagged != lags:
        said += _some("still says", lags, "finalized levels") or ["has caught up"]
    if (was.epoch < 0) != (now.epoch < 0):
        said.append("reports finalized features now" if was.epoch < 0 else "reports no finalized features now")
    said += [
        f"has {_shown(name, after)}"
        for name, before, after in _differing(was.configs, now.configs)
        if before is None or after is None or before.content != after.content
    ]
    if was.asked_version != now.asked_version:
        said.append(f"was asked at ApiVersions v{now.asked_version}")
    return Difference("broker changed", now.name, was, now, f"{now.name} {', '.join(said)}")


def _shown(name: str, config: BrokerConfig | None) -> str:
    if config is not None and not config.exists:
        return f"no config {name}"
    return f"{name}={'unknown' if config is None or config.value is None else config.value}"


def _some(verb: str, changed: list[str], what: str) -> list[str]:
    """Name the first few; a broker that was upgraded changes dozens."""
    if not changed:
        return []
    more = f" and {len(changed) - _SHOWN} more {what}" if len(changed) > _SHOWN else ""
    return [f"{verb} {', '.join(changed[:_SHOWN])}{more}"]


def _differing(was: Mapping[K, V], now: Mapping[K, V]) -> Iterator[tuple[K, V | None, V | None]]:
    for key in (*now, *(key for key in was if key not in now)):
        before, after = was.get(key), now.get(key)
        if before != after:
            yield key, before, after


def _place(broker: BrokerAnswer) -> tuple[int | None, str, int]:
    return broker.node_id, broker.host, broker.port


def _level(feature: str, level: int | None) -> str:
    if level is None:
        return "unknown"
    return level_name(feature, level) if level else "0"


def _range(said: tuple[int, int] | None) -> str:
    return "none" if said is None else f"{said[0]}..{said[1]}"
