"""Loggers whose records hold no control characters and no endless text, whatever the arguments of a record are.

Python's logging is imported with the first record: a command that logs nothing starts without it.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from featuregate.patterns import Lazy
from featuregate.printable import fit

if TYPE_CHECKING:
    import logging

_PLAIN: Final = frozenset({int, float, bool, type(None)})
_MOST_LINES: Final = 200
_silent: set[str] = set()


def get_logger(name: str) -> logging.Logger:
    """Return the logger of this name, with the one filter that makes its records fit."""
    return cast("logging.Logger", Lazy(partial(_made, name)))


def silence(name: str) -> None:
    """Print no record of this logger where nobody has set logging up: Python would print warnings."""
    _silent.add(name)
    if "logging" in sys.modules:
        _made(name)


def _made(name: str) -> logging.Logger:
    import logging  # noqa: PLC0415 - see the module

    logger = logging.getLogger(name)
    if _fit_record not in logger.filters:
        logger.addFilter(_fit_record)
    if name in _silent and not any(isinstance(each, logging.NullHandler) for each in logger.handlers):
        logger.addHandler(logging.NullHandler())
    return logger


def _fit_record(record: logging.LogRecord) -> bool:
    """Make each argument fit, and indent the lines of a traceback: none of them begins like a line of a log."""
    if isinstance(record.args, tuple):
        record.args = tuple(map(_fit_argument, record.args))
    if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
        import logging  # noqa: PLC0415 - see the module

        lines = logging.Formatter().formatException(record.exc_info).splitlines()
        record.exc_text = "\n".join(f"  {fit(line)}" for line in lines[-_MOST_LINES:])
    return True


def _fit_argument(value: Any) -> Any:
    """Keep numbers; each other value is a text, of which only indented lines stay lines."""
    if type(value) in _PLAIN:
        return value
    first, *others = str(value).split("\n  ")
    return "\n  ".join(map(fit, (first, *others[:_MOST_LINES]))) if not isinstance(value, str) else fit(value)
