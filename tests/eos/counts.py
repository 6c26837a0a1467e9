"""What a harness reports to a soak: the counts of its ledgers and of its faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from soak.reports import Report, write

if TYPE_CHECKING:
    from eos.ledger import Balance, Ledger


class Counts:
    """Counts the faults of a run that its apps have survived, and reports them with what went in and out."""

    def __init__(self, ledgers: Sequence[Ledger], *kafka: str) -> None:
        self.survived: Counter[str] = Counter()
        self.kafka = list(dict.fromkeys(kafka))
        self._ledgers = ledgers
        self._done: list[str] = []

    def fault(self, kind: str) -> None:
        self._done.append(kind)

    def went_on(self) -> None:
        """Count the faults before this, for the apps have written more messages."""
        self.survived.update(self._done)
        self._done.clear()
        inputs, outputs = sum(each.fed for each in self._ledgers), sum(each.outputs for each in self._ledgers)
        write(Report(inputs=inputs, outputs=outputs, faults=dict(self.survived), kafka=self.kafka))

    def balanced(self, *balances: Balance) -> None:
        write(
            Report(
                inputs=sum(each.inputs for each in balances),
                outputs=sum(each.outputs for each in balances),
                faults=dict(self.survived),
                kafka=self.kafka,
                lost=sum(len(each.lost) for each in balances),
                duplicated=sum(len(each.duplicated) for each in balances),
                changed=sum(len(each.changed) for each in balances),
            )
        )
