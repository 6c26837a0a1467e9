"""Doors that do what no door may."""

from threading import Event

from fuzzing.door import Door
from fuzzing.mutants import of_bytes

EXAMPLE = b"aaaaaaaa"
HELD: list[bytearray] = []


def raise_type_error(data: bytes) -> None:
    if data != EXAMPLE:
        raise TypeError("a mutant")


def never_end(data: bytes) -> None:
    while data != EXAMPLE:
        pass


def wait(data: bytes) -> None:
    if data != EXAMPLE:
        Event().wait()


def bloat(data: bytes) -> None:
    if data != EXAMPLE:
        HELD.append(bytearray(b"a" * (300 * 1024 * 1024)))


def door(name: str, enter) -> Door:
    return Door(name=name, enter=enter, examples=lambda: (EXAMPLE,), change=of_bytes, documents=(ValueError,))


DOORS = (door("raises", raise_type_error), door("endless", never_end), door("waits", wait), door("bloats", bloat))
