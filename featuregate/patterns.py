"""Objects that are made when they are first used, such as regular expressions: a command uses few of its modules'."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, cast


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return what `re.compile` returns, which compiles it at its first use."""
    return cast("re.Pattern[str]", Lazy(partial(re.compile, text, flags)))


class Lazy:
    """Has the attributes of the object that ``make`` returns, which is called when one is first used."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked of a copy that has nothing yet
            raise AttributeError(name)
        found = getattr(self._make(), name)
        if callable(found):
            setattr(self, name, found)  # the next use is that of any attribute
        return found
