"""advise(), with_advice(): what this cluster allows this client to switch on.

An advice joins three facts: what every broker of the cluster proves (a requirement of the core), what the librdkafka
of this process really does with it, and what the app's own properties say. Nothing is applied that the app has set
otherwise, or that another of its properties excludes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from featuregate.errors import FeatureGateError
from featuregate.gating.decisions import evaluate
from featuregate.logs import get_logger
from featuregate.requirements import Api, Requirement, configs_in, presets
from featuregate_confluent.config.settings import Config, given, number, text
from featuregate_librdkafka.advice import (
    Advice,
    AdviceState,
    ClientSupport,
    Excluder,
    Occurrences,
    Setting,
    apply_advice,
    judge_all,
    require_role,
)

if TYPE_CHECKING:
    from featuregate.polling.discoverer import Discoverer
    from featuregate.view.cluster_view import View

_log = get_logger("featuregate_confluent.config.advice")

ClientRole = Literal["consumer", "producer", "share"]
Version = tuple[int, int, int]
"""A version of librdkafka, such as ``(2, 12, 0)``."""


class _First(NamedTuple):
    """The first librdkafka that does it."""

    release: Version
    preview: bool = False
    """Whether it is a preview, and no release does it for production."""


_OLD: Final = _First((1, 6, 0))

_REFUSED: Final = (
    "allow.auto.create.topics auto.offset.reset consume.callback.max.messages enable.auto.commit "
    "enable.partition.eof fetch.error.backoff.ms fetch.queue.backoff.ms group.instance.id group.protocol "
    "group.protocol.type group.remote.assignor heartbeat.interval.ms isolation.level message.copy.max.bytes "
    "on_commit partition.assignment.strategy queued.max.messages.kbytes queued.min.messages session.timeout.ms "
    "socket.max.fails topic.blacklist"
)
REFUSED_BY_SHARE_CONSUMERS: Final = tuple(_REFUSED.split())
"""With any value: measured with confluent-kafka 2.16.1 and all properties of librdkafka 2.16.0."""
_SINCE: Final[dict[str, _First | None]] = {
    "group-protocol": _First((2, 12, 0)),
    "transactions-v2": None,
    "share-groups": _First((2, 15, 0), preview=True),
}
"""Where another release than `_OLD` is the first; None: none does it."""

_SETTINGS: Final = (
    Setting(
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
        spellings=("group.protocol",),
        value="consumer",
        default="classic",
        excluders=(
            Excluder(("partition.assignment.strategy",)),
            Excluder(("session.timeout.ms",)),
            Excluder(("heartbeat.interval.ms",)),
            Excluder(("group.protocol.type",)),
        ),
    ),
    Setting(
        name="read-committed",
        role="consumer",
        requirement=(Api("Fetch") >= 4) & (Api("ListOffsets") >= 2),  # noqa: PLR2004 - FetchRequest.json, ListOffsetsRequest.json: isolation_level
        note="Messages of open transactions, and what was written after them, arrive once these have ended",
        spellings=("isolation.level",),
        value="read_committed",
        default="read_committed",
    ),
    Setting(
        name="zstd",
        role="producer",
        requirement=presets.zstd,
        note=(
            "Brokers send an error in place of zstd records to consumers that are too old for zstd, and no broker "
            "reports this: check every consumer of the topics. On brokers before 2.1 librdkafka sends uncompressed "
            "records and only logs this"
        ),
        spellings=("compression.type", "compression.codec"),
        value="zstd",
        default="none",
    ),
    Setting(
        name="idempotence",
        role="producer",
        requirement=Api("InitProducerId") >= 0,
        note="librdkafka then waits for all in-sync replicas and keeps at most five requests in flight",
        spellings=("enable.idempotence",),
        value="true",
        default="false",
        implied_by=("transactional.id",),  # rdkafka_conf.c: rd_kafka_conf_finalize
        excluders=(
            Excluder(("acks", "request.required.acks"), lambda value: not (value == "all" or number(value) == -1)),
            Excluder(
                ("max.in.flight", "max.in.flight.requests.per.connection"),
                lambda value: (number(value) or 0) > 5,  # noqa: PLR2004 - rdkafka_idempotence.h: RD_KAFKA_IDEMP_MAX_INFLIGHT
            ),
            Excluder(("retries", "message.send.max.retries"), lambda value: number(value) == 0),
            Excluder(("queue.buffering.backpressure.threshold",), lambda value: (number(value) or 0) > 1),
            Excluder(("queuing.strategy",), lambda value: value != "fifo"),
        ),
    ),
    Setting(
        name="one-producer-per-process",
        role="producer",
        requirement=presets.kip447,
        note=(
            "No property does it: an exactly-once app on ExactlyOnceProcessor or ProducerSwitch moves by itself, once "
            "its whole group can. Do not change a hand-written app by this alone: members without group metadata in "
            "the same group would make duplicates"
        ),
    ),
    Setting(
        name="transactions-v2",
        role="producer",
        requirement=presets.kip890,
        note="For information: the cluster defends transactions of those clients that speak it",
    ),
    Setting(
        name="share-groups",
        role="share",
        requirement=presets.kip932,
        note="No property does it: an app uses ShareConsumer, and acknowledges each record",
        excluders=(Excluder(REFUSED_BY_SHARE_CONSUMERS),),
    ),
)
_BOOLEAN: Final = ("enable.idempotence",)
_BOOLEANS: Final = {"t": "true", "1": "true", "f": "false", "0": "false"}


def advise(view: View, role: ClientRole, config: Config) -> tuple[Advice, ...]:
    """Return what the cluster of this view allows a client with these properties to switch on.

    Raises `ConfigError`: there is no such role.

    Parameters
    ----------
    view
        Such as :func:`featuregate.discover` returns.
    role
        ``"consumer"``, ``"producer"``, or ``"share"`` for a share consumer (KIP-932).
    config
        The app's librdkafka properties; not changed.
    """
    require_role(role, get_args(ClientRole))
    table = settings(installed_librdkafka())
    return tuple(judge_all(table, role, lambda _setting, needs: evaluate(view, needs), _occurrences(config)))


def with_advice(config: Config, *, role: ClientRole, features: Discoverer) -> dict[str, Any]:
    """Return the app's properties with all that may be switched on now; each step is logged.

    Each advice has a sticky gate of ``features``, named ``advice-<name>``: with a latch store, what was once
    switched on stays on over restarts. What the app has set itself is never overridden, which is also how to turn one
    off. Before any broker has answered, nothing is switched on: wait for ``features`` first.
    Raises `ConfigError`: there is no such role.
    """
    require_role(role, get_args(ClientRole))
    table = [setting for setting in settings(installed_librdkafka()) if setting.role == role]
    needs = {each.name: each.requirement for each in table if each.requirement is not None}
    gates = {name: features.gate(f"advice-{name}", requirement) for name, requirement in needs.items()}
    _ask_for_configs(features, [*needs.values()])
    advice = judge_all(table, role, lambda setting, _needs: gates[setting.name].decision, _occurrences(config))
    return apply_advice(config, role, advice, _log)


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


def settings(client: Version | None) -> Iterator[Setting]:
    """Return the settings, with what this librdkafka does with them."""
    for setting in _SETTINGS:
        support = _support(_SINCE.get(setting.name, _OLD), client)
        note = setting.note if client else f"{setting.note}. {support.words}"
        yield setting._replace(support=support, note=note)


def _support(first: _First | None, client: Version | None) -> ClientSupport:
    """Return what librdkafka does, and the same as a sentence."""
    if first is None:
        words = "no librdkafka speaks it, and so neither does confluent-kafka"
        return ClientSupport(used=False, words=words, state=AdviceState.NO_EFFECT)
    since, here = (".".join(map(str, each or ())) for each in (first.release, client))
    used = client is None or client >= first.release
    if first.preview:
        words = f"since {since} librdkafka does it, as a preview that is not for production; "
        words += f"{here} {'is' if used else 'does not do it, and is'}" if client else "confluent-kafka is not"
        used = used and client is not None
        return ClientSupport(used=used, words=f"{words} installed here", state=AdviceState.NOT_YET)
    words = f"librdkafka does it since {since}; confluent-kafka is not installed here"
    if client is not None:
        more = "" if used else f" not do it, or only as a preview: {since} is the first that is fit for it"
        words = f"librdkafka {here} does{more or ' it'}"
    return ClientSupport(used=used, words=words)


def _occurrences(config: Config) -> Occurrences:
    """Return how librdkafka finds and reads a property of this configuration."""

    def found(spellings: tuple[str, ...]) -> list[tuple[str, str]]:
        values = [(key, text(value)) for key, value in given(config, spellings)]
        return [(key, _BOOLEANS.get(value, value)) for key, value in values] if spellings == _BOOLEAN else values

    return found
