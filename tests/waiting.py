"""Waiting until something holds: the one loop for it, with a bound that fits a busy machine."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["BOUND", "eventually", "in_loop"]

T = TypeVar("T")

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
    """Ask until the answer is as wanted, by default true, and return it; errors in ``despite`` are no answer yet."""
    end = time.monotonic() + within
    pause = threading.Event()
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
        pause.wait(0.02)


async def in_loop(ask: Callable[[], object], what: str = "", within: float = BOUND) -> None:
    """Let the running loop go on until a condition holds."""
    end = time.monotonic() + within
    while not ask():
        assert time.monotonic() < end, f"{what}: not within {within:g} s"
        await asyncio.sleep(0.001)
