"""Mutants: a seed, a door and a number make the same bytes each time. Pure."""

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Change = Callable[[Random, bytes, Sequence[bytes]], bytes]

LONGEST = 64 * 1024
"""Bytes of one mutant."""
NUMBERS = (
    b"\xff",
    b"\x00",
    b"\x80",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
)
"""Lengths and counts that no message has, in two, four and variable bytes."""
WORDS = re.compile(rb"[\w.-]+|\s+|[^\w\s]")
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**15, 2**31, 2**63, 2**64, 1e308, float("inf"), float("nan"), 10**400),
    *("", " ", "\x1b[2J", "\u2028", "\ud800", "a" * 1000, [], {}, [[]], {"": {}}),
)
"""Values that a JSON document may have anywhere."""


def mutant(change: Change, examples: Sequence[bytes], seed: int, number: int) -> bytes:
    random = Random(f"{seed}:{number}")
    made = random.choice(examples)
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        made = change(random, made, examples)[:LONGEST]
    return made


def of_bytes(random: Random, made: bytes, examples: Sequence[bytes]) -> bytes:
    """Change some bytes: another number, a part that is missing, that comes again and again, or from elsewhere."""
    at = random.randint(0, len(made))
    end = min(len(made), at + random.choice((0, 1, 2, 4, 4, 16, 256)))
    part = made[at:end]
    match random.randrange(6):
        case 0:
            part = random.choice(NUMBERS)
        case 1:
            part = random.randbytes(len(part))
        case 2:
            part = b""
        case 3:
            part *= times(random.choice((2, 3, 100, 5000)), len(part))
        case 4:
            other = random.choice(examples)
            part = other[random.randint(0, len(other)) :]
        case _:
            return made[:at] if random.random() < 0.2 else made[:at] + bytes([random.randrange(256)]) + made[at + 1 :]
    return made[:at] + part + made[end:]


def times(count: int, size: int) -> int:
    """Return how many times a part comes, at most: a mutant that is cut later takes no memory of the door's."""
    return min(count, LONGEST // max(size, 1) + 1)


def of_words(*words: bytes) -> Change:
    """Change a text by its words: one that is missing, repeated, swapped with another, or one of these."""

    def change(random: Random, made: bytes, examples: Sequence[bytes]) -> bytes:
        if random.random() < 0.2:
            return of_bytes(random, made, examples)
        parts = WORDS.findall(made) or [b""]
        at, other = random.randrange(len(parts)), random.randrange(len(parts))
        match random.randrange(5):
            case 0:
                parts[at] = random.choice(words)
            case 1:
                parts[at] *= times(random.choice((0, 2, 100, 5000)), len(parts[at]))
            case 2:
                parts[at], parts[other] = parts[other], parts[at]
            case 3:
                parts[at:other] = parts[at:other] * times(random.choice((0, 2, 50)), other - at)
            case _:
                parts[at : at + 1] = [parts[at], random.choice(words)]
        return b"".join(parts)

    return change


def of_json(random: Random, made: bytes, examples: Sequence[bytes]) -> bytes:
    """Change a value of a document; sometimes its bytes."""
    try:
        document = json.loads(made)
    except (ValueError, RecursionError):
        return of_bytes(random, made, examples)
    if random.random() < 0.1 or not isinstance(document, dict | list):
        return of_bytes(random, made, examples)
    inside: Any = document
    while True:
        name = random.choice(list(inside) if isinstance(inside, dict) else range(len(inside))) if inside else None
        if name is None or not isinstance(inside[name], dict | list) or random.random() < 0.3:
            break
        inside = inside[name]
    if name is not None:
        _replace(random, inside, name)
    return json.dumps(document).encode()


def _replace(random: Random, inside: Any, name: Any) -> None:
    match random.randrange(4):
        case 0:
            del inside[name]
        case 1 if isinstance(inside, list):
            inside.extend(inside[name : name + 1] * times(random.choice((1, 100, 2000)), len(json.dumps(inside[name]))))
        case 1:
            count = times(random.choice((1, 300, 2000)), len(json.dumps(inside[name])))
            inside.update({f"{name}{number}": inside[name] for number in range(count)})
        case 2 if isinstance(inside, dict):
            inside[str(random.choice(ODD))] = inside.pop(name)
        case _:
            inside[name] = random.choice(ODD)
