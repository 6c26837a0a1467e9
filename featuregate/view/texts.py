"""The texts of a view that came from a peer: escaped and cut, so that no terminal, log or page obeys them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from featuregate.budgets import LONGEST_TEXT
from featuregate.printable import fit
from featuregate.values import replace
from featuregate.view.answers import BrokerAnswer, BrokerConfig, Failure, FrozenMap

if TYPE_CHECKING:
    from featuregate.view.cluster_view import View

V = TypeVar("V")


def with_printable_texts(view: View) -> View:
    """Return a view that a relay sent, with the texts that it would have if it came from brokers."""
    return replace(
        view,
        cluster_id=None if view.cluster_id is None else fit(view.cluster_id),
        supported=with_printable_names(view.supported),
        finalized=with_printable_names(view.finalized),
        brokers=tuple(_of_broker(broker) for broker in view.brokers),
    )


def _of_broker(broker: BrokerAnswer) -> BrokerAnswer:
    failure = broker.failure
    return replace(
        broker,
        host=fit(broker.host),
        supported=with_printable_names(broker.supported),
        finalized=with_printable_names(broker.finalized),
        configs=FrozenMap((fit(name), _of_config(config)) for name, config in broker.configs.items()),
        failure=failure and Failure(fit(failure.kind), fit(failure.text)),
    )


def _of_config(config: BrokerConfig) -> BrokerConfig:
    value = None if config.value is None else fit(config.value)
    return config._replace(value=value, problem=fit(config.problem))


def with_printable_names(content: Mapping[str, V]) -> Mapping[str, V]:
    """Escape the names of features; leave out blank ones, which no controller and no requirement takes for a name."""
    if all(name.isprintable() and name.strip() and len(name) <= LONGEST_TEXT for name in content):
        return content
    return FrozenMap((fit(name, LONGEST_TEXT), value) for name, value in content.items() if name.strip())
