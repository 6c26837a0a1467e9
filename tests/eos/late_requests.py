"""A proxy in front of one broker that holds a request, cuts the connection, and hands the request on later."""

import selectors
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field

from waiting import BOUND, eventually

from eos.pipes import SHORT_GROUPS
from featuregate.testing import LocalKafka

PRODUCE, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 0, 24, 25, 26, 28

_HOST = "127.0.0.1"
_LENGTH = struct.Struct(">i")
_PIECE = 64 * 1024


@dataclass(slots=True)
class LateRequest:
    """A request that the broker has not got yet, and the broker's side of the connection that it came on."""

    frame: bytes
    broker: socket.socket = field(repr=False)

    def hand_on(self) -> bytes:
        """Send the request, wait for the broker's answer, and return what follows its correlation id."""
        self.broker.sendall(self.frame)
        with self.broker.makefile("rb") as answers:
            (length,) = _LENGTH.unpack(answers.read(_LENGTH.size))
            return answers.read(length)[4:]


class HoldingProxy:
    """Passes on what clients and the broker send, except for one request: see :meth:`hold`."""

    def __init__(self, listener: socket.socket, broker_port: int) -> None:
        self._listener, self._broker_port = listener, broker_port
        self._wanted: int | None = None
        self._held: LateRequest | None = None
        self._open = ExitStack()
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def hold(self, api_key: int) -> None:
        """Hold the next request of this API key, and end the client's connection that it came on."""
        self._held, self._wanted = None, api_key

    def held(self) -> LateRequest:
        held = eventually(lambda: self._held, "the request comes", BOUND)
        assert held is not None
        return held

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._open.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection((_HOST, self._broker_port))
                except ConnectionRefusedError:  # it starts, or has ended
                    client.close()
                    continue
                for each in (client, broker):
                    self._open.callback(_end, each)
                threading.Thread(target=self._pass, args=(client, broker), name="proxy", daemon=True).start()

    def _pass(self, client: socket.socket, broker: socket.socket) -> None:
        requests = bytearray()
        with suppress(OSError, ValueError), selectors.DefaultSelector() as ready:  # closed
            for each in (client, broker):
                ready.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    piece = key.fileobj.recv(_PIECE)  # type: ignore[union-attr]
                    if not piece:
                        _end(client)
                        _end(broker)
                        return
                    if key.fileobj is broker:
                        client.sendall(piece)
                        continue
                    requests += piece
                    for frame in _frames(requests):
                        if self._wanted == int.from_bytes(frame[4:6]):
                            self._wanted = None
                            _end(client)
                            self._held = LateRequest(frame, broker)
                            return
                        broker.sendall(frame)


def _frames(requests: bytearray) -> Iterator[bytes]:
    while len(requests) >= _LENGTH.size:
        end = _LENGTH.size + _LENGTH.unpack_from(requests)[0]
        if len(requests) < end:
            return
        frame = bytes(requests[:end])
        del requests[:end]
        yield frame


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def behind_proxy(version: str) -> Iterator[tuple[LocalKafka, HoldingProxy]]:
    with socket.create_server((_HOST, 0)) as listener:
        kafka = LocalKafka(version, properties=SHORT_GROUPS)
        own = f"CLIENT://{_HOST}:{listener.getsockname()[1]},INTERNAL://{kafka.internal_bootstrap}"
        kafka.properties |= {"advertised.listeners": own}
        with kafka, closing(HoldingProxy(listener, int(kafka.bootstrap.rpartition(":")[2]))) as proxy:
            yield kafka, proxy
