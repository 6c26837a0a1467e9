"""How texts name the brokers of a view, one or many. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from featuregate.budgets import MOST_NAMED
from featuregate.printable import some

if TYPE_CHECKING:
    from featuregate.view.answers import BrokerAnswer, Failure
    from featuregate.view.cluster_view import View


def members(brokers: Sequence[BrokerAnswer]) -> str:
    """Return the ids of brokers in short form, then the addresses of those without an id, as brokers say them."""
    numbers = runs(broker.node_id for broker in brokers if broker.node_id is not None)
    addresses = some((broker.address for broker in brokers if broker.node_id is None), separator=",")
    return ",".join(filter(None, [numbers, addresses]))


def named(brokers: Sequence[BrokerAnswer]) -> str:
    """Return how texts call these brokers: ``broker 2 (b2:9092)``, or ``brokers 1-3,7`` where there are several."""
    return brokers[0].name if len(brokers) == 1 else f"{brokers[0].role}s {members(brokers)}"


def failures(view: View) -> Mapping[Failure, Sequence[BrokerAnswer]]:
    """Return the brokers that did not answer, by their failure."""
    alike: dict[Failure, list[BrokerAnswer]] = {}
    for broker in view.brokers:
        if broker.failure is not None:
            alike.setdefault(broker.failure, []).append(broker)
    return alike


def runs(numbers: Iterable[int]) -> str:
    """Return the short form of a list of integers: 1, 2, 3 and 7 are ``1-3,7``. Of many runs it has the first ones."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found[:MOST_NAMED]]
    left = sum(run[-1] - run[0] + 1 for run in found[MOST_NAMED:])
    return ",".join(texts) + (f" and {left} more" if left else "")
