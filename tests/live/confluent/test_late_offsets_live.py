"""Offsets that brokers take although their transaction was aborted (KIP-890): why the switch leaves some open.

The requests are bytes of the test's own, in an order that a client's have only where the network delays one.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest
from eos.pipes import Pipe
from waiting import BOUND, eventually

from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("switch"), pytest.mark.live, pytest.mark.timeout(300)]

LATER = (14, 15, 16, 51)
"""The coordinator loads, is not there yet, is another one, or ends a transaction."""
INVALID_PRODUCER_EPOCH = 47


class Api(NamedTuple):
    """A request in a version without tagged fields."""

    key: int
    version: int
    error_at: int
    """Where the error code is in the answer, behind the correlation id."""


FIND_COORDINATOR = Api(10, 1, 4)
INIT_PRODUCER_ID, ADD_OFFSETS_TO_TXN, END_TXN = Api(22, 1, 4), Api(25, 1, 4), Api(26, 1, 4)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


class Connection:
    """A connection to the only broker, on which each request is answered before the next one."""

    def __init__(self, kafka: LocalKafka) -> None:
        node = kafka.node(1)
        self._socket = socket.create_connection((node.host, node.port), timeout=BOUND)
        self._answers = self._socket.makefile("rb")

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def ask(self, api: Api, body: bytes) -> tuple[int, bytes]:
        """Return the error code, and what is behind it."""
        message = struct.pack(">hhi", api.key, api.version, 7) + text("late") + body
        self._socket.sendall(struct.pack(">i", len(message)) + message)
        (length,) = struct.unpack(">i", self._answers.read(4))
        answer = self._answers.read(length)[4:]
        (error,) = struct.unpack_from(">h", answer, api.error_at)
        return error, answer[api.error_at + 2 :]

    def ask_until_ready(self, api: Api, body: bytes) -> tuple[int, bytes]:
        """Ask again while the coordinator cannot answer yet."""
        answers: list[tuple[int, bytes]] = []

        def answered() -> bool:
            answers.append(self.ask(api, body))
            return answers[-1][0] not in LATER

        eventually(answered, "the coordinator answers")
        return answers[-1]


class Client:
    """The requests of one transactional producer, whose id is the name of the group."""

    def __init__(self, connection: Connection, pipe: Pipe) -> None:
        self._connection = connection
        self._pipe = pipe
        for kind in (b"\0", b"\1"):  # of the group, and of the transactions: the broker makes their topics
            assert connection.ask_until_ready(FIND_COORDINATOR, text(pipe.group) + kind)[0] == 0
        self.init()

    def _identity(self, epoch: int) -> bytes:
        return struct.pack(">qh", self._producer_id, epoch)

    def init(self) -> None:
        """Take the transactional id, which ends an open transaction and begins a new epoch."""
        body = text(self._pipe.group) + struct.pack(">i", 60_000)
        error, rest = self._connection.ask_until_ready(INIT_PRODUCER_ID, body)
        assert error == 0
        self._producer_id, self.epoch = struct.unpack_from(">qh", rest)

    def begin(self) -> None:
        """Add the group to the transaction, when the one before has ended."""
        body = text(self._pipe.group) + self._identity(self.epoch) + text(self._pipe.group)
        assert self._connection.ask_until_ready(ADD_OFFSETS_TO_TXN, body)[0] == 0

    def send_offset(self, partition: int, offset: int, epoch: int) -> int:
        """Send the offset of a partition; return the error code."""
        source = text(self._pipe.source)
        body = text(self._pipe.group) * 2 + self._identity(epoch) + struct.pack(">i", 1) + source
        body += struct.pack(">iiqi", 1, partition, offset, -1) + text("")
        # Behind the time of throttling come one topic, one partition, and its number.
        answer = Api(28, 2, 4 + 4 + len(source) + 4 + 4)
        return self._connection.ask_until_ready(answer, body)[0]

    def end(self, *, commit: bool) -> None:
        """Commit or abort."""
        body = text(self._pipe.group) + self._identity(self.epoch) + struct.pack(">?", commit)
        assert self._connection.ask(END_TXN, body)[0] == 0


@pytest.fixture
def pipe(kafka: LocalKafka) -> Pipe:
    return Pipe.on(kafka, "late", partitions=2)


@pytest.fixture
def client(kafka: LocalKafka, pipe: Pipe) -> Iterator[Client]:
    with closing(Connection(kafka)) as connection:
        yield Client(connection, pipe)


def commits_next(client: Client, pipe: Pipe) -> dict[int, int]:
    """Commit an offset of partition 1, and return what the group has committed then."""
    client.begin()
    assert client.send_offset(1, 5, client.epoch) == 0
    client.end(commit=True)
    eventually(lambda: 1 in pipe.committed(), "the offset is committed")
    return pipe.committed()


@pytest.mark.parametrize(
    ("kafka", "new_epoch"), [("2.8.2", False), ("2.8.2", True), ("4.2.0", False)], indirect=["kafka"]
)
def test_brokers_commit_the_offsets_of_an_aborted_transaction_with_the_next_one(
    client: Client, pipe: Pipe, *, new_epoch: bool
) -> None:
    """An abort does not stop them, on old brokers not even a new epoch: the inputs before them would be lost."""
    client.begin()
    before = client.epoch
    client.end(commit=False)
    if new_epoch:
        client.init()
    client.begin()
    assert client.send_offset(0, 10, before) == 0
    assert commits_next(client, pipe) == {0: 10, 1: 5}


@pytest.mark.parametrize("kafka", ["2.8.2", "4.2.0"], indirect=True)
def test_no_broker_takes_offsets_once_the_next_producer_has_aborted_their_transaction(
    client: Client, pipe: Pipe
) -> None:
    """Its first error is why the switch leaves a transaction open if no broker has answered its offsets."""
    client.begin()
    before = client.epoch
    client.init()
    assert client.send_offset(0, 10, before) == INVALID_PRODUCER_EPOCH
    assert commits_next(client, pipe) == {1: 5}
