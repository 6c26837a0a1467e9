"""advise(), with_advice(): what this cluster allows this client to switch on.

An advice joins three facts: what every broker of the cluster proves (a requirement of the core), what the librdkafka
of this process really does with it, and what the app's own properties say. Nothing is applied that the app has set
otherwise, or that another of its properties excludes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from featuregate.errors import FeatureGateError
from featuregate.gating.decisions import Decision, evaluate
from featuregate.requirements import Api, Requirement, configs_in, presets
from featuregate_confluent.config.properties import Config, given, last, number, text
from featuregate_librdkafka.advice import Advice, AdviceState, apply_advice, require_role

if TYPE_CHECKING:
    from featuregate.polling.discoverer import Discoverer
    from featuregate.view.cluster_view import View

_log = logging.getLogger("featuregate_confluent.config.advice")

ClientRole = Literal["consumer", "producer", "share"]
Version = tuple[int, int, int]
"""Of librdkafka, such as ``(2, 12, 0)``."""


class _Excluder(NamedTuple):
    """Another property, which excludes what is advised."""

    spellings: tuple[str, ...]
    excludes: Callable[[object], bool] = lambda _value: True


class _Item(NamedTuple):
    """What can be advised."""

    name: str
    role: ClientRole
    requirement: Requirement
    note: str
    """What to know before it is switched on."""
    since: Version | None
    """The first librdkafka that does it, fit for production; None: there is none."""
    spellings: tuple[str, ...] = ()
    """librdkafka's property and its aliases, the one that is advised first."""
    value: str = ""
    default: str = ""
    """What librdkafka does where the app says nothing."""
    excluders: tuple[_Excluder, ...] = ()
    preview: Version | None = None
    """The first librdkafka that does it as a preview, where none does it for production."""


_OLD: Final = (1, 6, 0)

_ITEMS: Final = (
    _Item(
        name="group-protocol",
        role="consumer",
        requirement=presets.kip848,
        note=(
            "Moving a live group is an upgrade of its own: its first member with the new protocol turns it over, "
            "and members of both kinds share it only where the brokers' group.consumer.migration.policy allows it: "
            "bidirectional by default from 4.0 on; elsewhere stop all members first. Rebalance callbacks must use "
            "incremental_assign and incremental_unassign, patterns must match whole topic names, and of two members "
            "with one group.instance.id the later one fails"
        ),
        since=(2, 12, 0),
        spellings=("group.protocol",),
        value="consumer",
        default="classic",
        excluders=(
            _Excluder(("partition.assignment.strategy",)),
            _Excluder(("session.timeout.ms",)),
            _Excluder(("heartbeat.interval.ms",)),
            _Excluder(("group.protocol.type",)),
        ),
    ),
    _Item(
        name="read-committed",
        role="consumer",
        requirement=(Api("Fetch") >= 4) & (Api("ListOffsets") >= 2),  # noqa: PLR2004 - FetchRequest.json, ListOffsetsRequest.json: isolation_level
        note="Messages of open transactions, and what was written after them, arrive once these have ended",
        since=_OLD,
        spellings=("isolation.level",),
        value="read_committed",
        default="read_committed",
    ),
    _Item(
        name="zstd",
        role="producer",
        requirement=presets.zstd,
        note=(
            "Brokers send an error in place of zstd records to consumers that are too old for zstd, and no broker "
            "reports this: check every consumer of the topics. On brokers before 2.1 librdkafka sends uncompressed "
            "records and only logs this"
        ),
        since=_OLD,
        spellings=("compression.type", "compression.codec"),
        value="zstd",
        default="none",
    ),
    _Item(
        name="idempotence",
        role="producer",
        requirement=Api("InitProducerId") >= 0,
        note="librdkafka then waits for all in-sync replicas and keeps at most five requests in flight",
        since=_OLD,
        spellings=("enable.idempotence",),
        value="true",
        default="false",
        excluders=(
            _Excluder(
                ("acks", "request.required.acks"), lambda value: not (text(value) == "all" or number(value) == -1)
            ),
            _Excluder(
                ("max.in.flight", "max.in.flight.requests.per.connection"),
                lambda value: (number(value) or 0) > 5,  # noqa: PLR2004 - rdkafka_idempotence.h: RD_KAFKA_IDEMP_MAX_INFLIGHT
            ),
            _Excluder(("retries", "message.send.max.retries"), lambda value: number(value) == 0),
            _Excluder(("queuing.strategy",), lambda value: text(value) != "fifo"),
        ),
    ),
    _Item(
        name="one-producer-per-process",
        role="producer",
        requirement=presets.kip447,
        note=(
            "No property does it: an exactly-once app on ExactlyOnceProcessor or ProducerSwitch moves by itself, once "
            "its whole group can. Do not change a hand-written app by this alone: members without group metadata in "
            "the same group would make duplicates"
        ),
        since=_OLD,
    ),
    _Item(
        name="transactions-v2",
        role="producer",
        requirement=presets.kip890,
        note="For information: the cluster defends transactions of those clients that speak it",
        since=None,
    ),
    _Item(
        name="share-groups",
        role="share",
        requirement=presets.kip932,
        note="No property does it: an app uses ShareConsumer, and acknowledges each record",
        since=None,
        preview=(2, 15, 0),
    ),
)
_BOOLEANS: Final = {"t": "true", "1": "true", "f": "false", "0": "false"}


def advise(view: View, role: ClientRole, config: Config) -> tuple[Advice, ...]:
    """Return what the cluster of this view allows a client with these properties to switch on.

    Parameters
    ----------
    view
        Such as :func:`featuregate.discover` returns.
    role
        ``"consumer"``, ``"producer"``, or ``"share"`` for a share consumer (KIP-932).
    config
        The app's librdkafka properties; not changed.

    Raises
    ------
    ConfigError
        There is no such role.
    """
    client = installed_librdkafka()
    return tuple(_advice(item, evaluate(view, item.requirement), config, client) for item in _items(role))


def with_advice(config: Config, *, role: ClientRole, features: Discoverer) -> dict[str, Any]:
    """Return the app's properties with all that may be switched on now; each step is logged.

    Each advice has a sticky gate of ``features``, named ``advice-<name>``: with a latch store, what was once
    switched on stays on over restarts. What the app has set itself is never overridden, which is also how to turn one
    off. Before any broker has answered, nothing is switched on: wait for ``features`` first.

    Raises
    ------
    ConfigError
        There is no such role.
    """
    client = installed_librdkafka()
    gates = [(item, features.gate(f"advice-{item.name}", item.requirement)) for item in _items(role)]
    _ask_for_configs(features, [item.requirement for item, _ in gates])
    return apply_advice(config, role, (_advice(item, gate.decision, config, client) for item, gate in gates), _log)


def _ask_for_configs(features: Discoverer, requirements: list[Requirement]) -> None:
    """Wait for a poll that asks brokers for the configs that requirements depend on, where none has."""
    wanted = {name for requirement in requirements for name in configs_in(requirement)}
    answering = () if features.view is None else features.view.answering
    if any(name not in broker.configs for name in wanted for broker in answering):
        with suppress(FeatureGateError, RuntimeError):  # RuntimeError: in the loop that polls, which must not wait
            features.refresh()


def installed_librdkafka() -> Version | None:
    """Return the version of librdkafka that confluent-kafka has in this process; None: it is not installed."""
    try:
        _text, packed = import_module("confluent_kafka").libversion()
    except ImportError:
        return None
    return packed >> 24 & 0xFF, packed >> 16 & 0xFF, packed >> 8 & 0xFF


def _items(role: ClientRole) -> tuple[_Item, ...]:
    require_role(role, get_args(ClientRole))
    return tuple(item for item in _ITEMS if item.role == role)


def _advice(item: _Item, decision: Decision, config: Config, client: Version | None) -> Advice:
    used, words = _client(item, client)
    on = bool(item.spellings) and _effective(item, config) == item.value
    state = _state(item, decision, used=used, on=on)
    conflicts = tuple(_conflicts(item, config))
    return Advice(
        name=item.name,
        setting=item.spellings[0] if item.spellings else None,
        value=item.value or None,
        requirement=item.requirement,
        decision=decision,
        state=state,
        reason=_reason(item.note if client else f"{item.note}. {words}", state, decision, words, used=used, on=on),
        used=used,
        conflicts=conflicts,
        applies=state is AdviceState.MAY and bool(item.spellings) and not conflicts,
    )


def _client(item: _Item, client: Version | None) -> tuple[bool, str]:
    """Return whether librdkafka does it, and the same as a sentence."""
    since = item.since
    if item.preview is not None:
        return _client_with_preview(item.preview, client)
    if since is None:
        return False, "no librdkafka speaks it, and so neither does confluent-kafka"
    first = ".".join(map(str, since))
    if client is None:
        return True, f"librdkafka does it since {first}; confluent-kafka is not installed here"
    here = ".".join(map(str, client))
    if client < since:
        return False, f"librdkafka {here} does not do it, or only as a preview: {first} is the first that is fit for it"
    return True, f"librdkafka {here} does it"


def _client_with_preview(since: Version, client: Version | None) -> tuple[bool, str]:
    preview = f"since {'.'.join(map(str, since))} librdkafka does it, as a preview that is not for production"
    if client is None:
        return False, f"{preview}; confluent-kafka is not installed here"
    here = ".".join(map(str, client))
    return client >= since, f"{preview}; {here} {'is' if client >= since else 'does not do it, and is'} installed here"


def _state(item: _Item, decision: Decision, *, used: bool, on: bool) -> AdviceState:
    if item.since is None and item.preview is None:
        return AdviceState.NO_EFFECT
    if not (used and decision.open) or item.since is None:
        return AdviceState.NOT_YET
    return AdviceState.ON if on else AdviceState.MAY


def _effective(item: _Item, config: Config) -> str:
    """Return the value that the client uses: the app's, or librdkafka's default."""
    if item.name == "idempotence" and last(config, ("transactional.id",)):
        return item.value  # a transactional producer is idempotent (rdkafka_conf.c: rd_kafka_conf_finalize)
    value = last(config, item.spellings)
    return item.default if value is None else _canonical(item, value)


def _canonical(item: _Item, value: object) -> str:
    said = text(value)
    return _BOOLEANS.get(said, said) if item.default in {"true", "false"} else said


def _conflicts(item: _Item, config: Config) -> list[str]:
    """Return the app's properties that stand in the way: this one with another value, then those that exclude it."""
    other = [key for key, value in given(config, item.spellings) if _canonical(item, value) != item.value]
    excluding = [
        key
        for excluder in item.excluders
        for key, value in given(config, excluder.spellings)
        if excluder.excludes(value)
    ]
    return other + excluding


def _reason(note: str, state: AdviceState, decision: Decision, client: str, *, used: bool, on: bool) -> str:
    if state is AdviceState.NOT_YET:
        missing = client if decision.open or not used else decision.summary
        return f"it is on, but {missing}" if on else missing
    return client if state is AdviceState.NO_EFFECT else note
