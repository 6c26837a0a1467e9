"""A view as JSON, both ways. The schema is documented in docs/reference/views.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from featuregate.budgets import MOST_APIS, MOST_NODES
from featuregate.catalog import api_name
from featuregate.errors import ViewJsonError
from featuregate.json_values import JsonError, JsonValue, check_schema, parse_json
from featuregate.patterns import pattern
from featuregate.view.answers import ApiRange, BrokerAnswer, BrokerConfig, Failure, FrozenMap, SupportedRange

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

SCHEMA_VERSION: Final = 1
_KEY: Final = pattern(r"0|-?[1-9][0-9]{0,4}")

_Pool = dict[object, Any]
"""Equal content is one object, as in a merged view."""


def text_of(view: View) -> str:
    """Write a view as one line of JSON. ``incomplete`` is for readers in other languages."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "cluster_id": view.cluster_id,
        "role": view.role,
        "broker_list": view.broker_list,
        "controller_id": view.controller_id,
        "seen_at": view.seen_at,
        "incomplete": view.incomplete,
        **_levels(view),
    }
    known: dict[tuple[int, ...], str] = {}
    brokers = ", ".join([_broker(broker, known) for broker in view.brokers])
    return f'{_dumps(content)[:-1]}, "brokers": [{brokers}]}}'


def _dumps(content: Mapping[str, object]) -> str:
    import json  # noqa: PLC0415 - only at the first use

    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def _levels(of: View | BrokerAnswer) -> dict[str, object]:
    """Return what views and answers have in common."""
    return {
        "epoch": of.epoch,
        "finalized": dict(of.finalized),
        "supported": {name: list(levels) for name, levels in of.supported.items()},
        "api_ranges": {
            str(key): {"name": api_name(key), "min": lowest, "max": highest}
            for key, (lowest, highest) in of.api_ranges.items()
        },
    }


def _broker(broker: BrokerAnswer, known: dict[tuple[int, ...], str]) -> str:
    """Write one answer. Brokers that answer alike share what they say, which is written once."""
    same = (broker.epoch, *(id(each) for each in (broker.finalized, broker.supported, broker.api_ranges)))
    if same not in known:
        known[same] = _dumps(_levels(broker))
    who = {
        "node_id": broker.node_id,
        "host": broker.host,
        "port": broker.port,
        "answered_at": broker.answered_at,
        "asked_version": broker.asked_version,
        "failure": broker.failure and broker.failure._asdict(),
        **({"configs": {name: config._asdict() for name, config in broker.configs.items()}} if broker.configs else {}),
    }
    return f"{_dumps(who)[:-1]}, {known[same][1:]}"


def fields_from_json(text: str) -> dict[str, Any]:
    """Read the fields of a view. Fields that are not known are skipped: a later release may add some.

    Raises `ViewJsonError`: it is not JSON, of a newer schema, or a value is missing or of a wrong type; the error says
    where.
    """
    try:
        return _fields_from(parse_json(text, "view"))
    except JsonError as error:
        raise ViewJsonError(error.where, error.problem) from error


def _fields_from(whole: JsonValue) -> dict[str, Any]:
    check_schema(whole, newest=SCHEMA_VERSION)
    role = whole.field("role").one_of("broker", "controller")
    pool: _Pool = {}
    return {
        "cluster_id": whole.field("cluster_id").optional(JsonValue.text),
        "role": role,
        **_read_levels(whole, pool),
        "brokers": tuple(_read_broker(broker, role, pool) for broker in _brokers(whole.field("brokers"))),
        "broker_list": whole.field("broker_list").one_of("cluster", "bootstrap"),
        "controller_id": whole.field("controller_id").optional(JsonValue.integer),
        "seen_at": whole.field("seen_at").seconds(),
    }


def _read_levels(at: JsonValue, pool: _Pool) -> dict[str, Any]:
    """Read what views and answers have in common."""
    finalized = FrozenMap({name: level.integer(16) for name, level in _some_hundreds(at.field("finalized"))})
    supported = FrozenMap(
        {name: SupportedRange(*levels.pair()) for name, levels in _some_hundreds(at.field("supported"))}
    )
    api_ranges = FrozenMap(dict(_read_api_range(*said) for said in _some_hundreds(at.field("api_ranges"))))
    return {
        "epoch": at.field("epoch").integer(),
        "finalized": pool.setdefault(finalized, finalized),
        "supported": pool.setdefault(supported, supported),
        "api_ranges": pool.setdefault(api_ranges, api_ranges),
    }


def _some_hundreds(at: JsonValue) -> Iterable[tuple[str, JsonValue]]:
    """Return the fields of an object that holds what one broker may have many of."""
    fields = at.fields()
    if len(fields) > MOST_APIS:
        raise JsonError(at.where, f"{len(fields)} are more than the {MOST_APIS} that are believed")
    return fields.items()


def _brokers(at: JsonValue) -> list[JsonValue]:
    brokers = at.items()
    if len(brokers) > MOST_NODES:
        raise JsonError(at.where, f"{len(brokers)} brokers are more than a cluster can have")
    return brokers


def _read_api_range(key: str, said: JsonValue) -> tuple[int, ApiRange]:
    """Read one range by its key; the name stands there for people."""
    if not _KEY.fullmatch(key):
        raise JsonError(said.where, "expected the key of an API")
    return int(key), ApiRange(said.field("min").integer(16), said.field("max").integer(16))


def _read_broker(at: JsonValue, role: Any, pool: _Pool) -> BrokerAnswer:
    return BrokerAnswer(
        node_id=at.field("node_id").optional(JsonValue.integer),
        host=at.field("host").text(),
        port=at.field("port").integer(),
        role=role,
        answered_at=at.field("answered_at").seconds(),
        asked_version=at.field("asked_version").optional(JsonValue.integer),
        failure=at.field("failure").optional(_read_failure),
        configs=_read_configs(at, pool),
        **_read_levels(at, pool),
    )


def _read_configs(at: JsonValue, pool: _Pool) -> Mapping[str, BrokerConfig]:
    """Read the configs of a broker; most views have none, because no requirement depends on any."""
    if "configs" not in at.fields():
        return FrozenMap()
    configs = FrozenMap((name, _read_config(said)) for name, said in at.field("configs").fields().items())
    found: Mapping[str, BrokerConfig] = pool.setdefault(configs, configs)
    return found


def _read_config(at: JsonValue) -> BrokerConfig:
    return BrokerConfig(
        value=at.field("value").optional(JsonValue.text),
        problem=at.field("problem").text(),
        exists=at.field("exists").of_type(bool, "true or false"),
    )


def _read_failure(at: JsonValue) -> Failure:
    return Failure(kind=at.field("kind").text(), text=at.field("text").text())
