"""How the ledger counts what a reader sees."""

from typing import Any

from confluent_kafka import KafkaError
from eos.ledger import Ledger
from eos.pipes import Pipe

END = KafkaError(KafkaError._PARTITION_EOF)


class Seen:
    """A record of one partition at an offset, which says that it came from an input; or the end of the partition."""

    def __init__(self, offset: int, *, source: int | None = None, error: KafkaError | None = None) -> None:
        self._offset, self._source, self._error = offset, source, error

    def partition(self) -> int:
        """Return the only one."""
        return 0

    def offset(self) -> int:
        """Return where it is."""
        return self._offset

    def error(self) -> KafkaError | None:
        """Return the end, if it is that."""
        return self._error

    def headers(self) -> list[tuple[str, bytes]]:
        """Return where the input was."""
        return [("fg.partition", b"0"), ("fg.offset", str(self._source).encode())]

    def value(self) -> bytes:
        """Return any text."""
        return b"text"

    def timestamp(self) -> tuple[int, int]:
        """Return any time."""
        return 1, 1_000


def counted(*seen: Any) -> list[int]:
    """Return how many outputs of which how many are of different inputs a ledger has counted."""
    ledger = Ledger(Pipe({}, "group", "in", "out"))
    for message in seen:
        ledger._count(message)
    return [ledger.outputs, ledger.different]


def test_an_output_that_is_read_again_counts_once() -> None:
    """After a change of leaders, a reader may be set back, and meet an end that is before what it has seen."""
    outputs = [Seen(offset, source=offset) for offset in range(6)]
    assert counted(*outputs, Seen(2, error=END), *outputs[2:], Seen(6, error=END)) == [6, 6]


def test_an_input_in_two_places_counts_twice() -> None:
    """The ledger is there to find such an input."""
    assert counted(Seen(0, source=0), Seen(1, source=1), Seen(2, source=0)) == [3, 2]
