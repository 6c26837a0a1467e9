"""Lets tasks in other processes wait until the test has changed something."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BOUND = 60.0


def meet(address: tuple[str, int], *, first: bool) -> None:
    with socket.create_connection(address, timeout=BOUND) as connection:
        connection.sendall(b"1" if first else b"0")
        connection.recv(1)


@contextmanager
def change_amid(change: Callable[[], None]) -> Iterator[tuple[str, int]]:
    """Return the address of the meeting. The change is made once, when the first task has come; then all continue."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_host, args=(server, change), daemon=True)
        thread.start()
        try:
            yield server.getsockname()
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(BOUND)


def _host(server: socket.socket, change: Callable[[], None]) -> None:
    waiting: list[socket.socket] = []
    changed = False
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            break  # the meeting is over
        waiting.append(connection)
        connection.settimeout(BOUND)
        if connection.recv(1) == b"1" and not changed:
            change()
            changed = True
        if changed:
            for each in waiting:
                each.close()
            waiting.clear()
    for each in waiting:
        each.close()
