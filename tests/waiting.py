"""Waiting until something holds: the one loop for it, with a bound that fits a busy machine."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import IO, TypeVar

T = TypeVar("T")

LONGEST_PAUSE = 0.2
"""Seconds between two questions."""

BOUND = float(os.environ.get("EOS_BOUND", "240"))
"""Seconds that anything may take which usually takes less than one."""


def eventually(
    ask: Callable[[], T],
    what: str = "",
    within: float = BOUND,
    *,
    met: Callable[[T], object] = bool,
    despite: tuple[type[Exception], ...] = (),
) -> T:
    """Ask until the answer is as wanted, by default true, and return it; errors in ``despite`` are no answer yet.

    What is asked is often a broker: the pauses become longer, and a long wait leaves the machine to those it is for.
    """
    end = time.monotonic() + within
    pause, seconds = threading.Event(), 0.02
    last: object = None
    while True:
        try:
            answer = ask()
        except despite as error:
            last = error
        else:
            if met(answer):
                return answer
            last = answer
        assert time.monotonic() < end, f"{what}: not within {within:g} s, but {last!r}"
        pause.wait(seconds)
        seconds = min(1.2 * seconds, LONGEST_PAUSE)


def line_with(stream: IO[str], text: str) -> str:
    """Read lines until one has this text: another thread of that process may have written others before it."""
    read: list[str] = []
    for line in stream:
        if text in line:
            return line
        read.append(line)
    raise AssertionError(f"{text!r} is in none of the lines: {''.join(read)!r}")


async def in_loop(ask: Callable[[], object], what: str = "", within: float = BOUND) -> None:
    end = time.monotonic() + within
    while not ask():
        assert time.monotonic() < end, f"{what}: not within {within:g} s"
        await asyncio.sleep(0.001)
