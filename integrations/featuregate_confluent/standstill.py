"""Calls of a client that may stand still for good, whatever timeout they are given: each has a bound of ours."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["within"]

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return or raise what a call returns or raises; where it stands still, leave it behind in its thread.

    Raises
    ------
    TimeoutError
        It has not come back. It may still do so, and what it uses must be left alone.
    """
    answer: Future[T] = Future()
    Thread(target=_run, args=(call, answer), name="featuregate-call", daemon=True).start()
    return answer.result(seconds)


def _run(call: Callable[[], T], answer: Future[T]) -> None:
    try:
        answer.set_result(call())
    except BaseException as failure:  # noqa: BLE001 - raised again where it is waited for
        answer.set_exception(failure)
