"""Loggers whose records hold no control characters and no endless text, whatever the arguments of a record are."""

from __future__ import annotations

import logging
from typing import Any, Final

from featuregate.printable import fit

_PLAIN: Final = frozenset({int, float, bool, type(None)})
_FORMATTER: Final = logging.Formatter()
_MOST_LINES: Final = 200


def get_logger(name: str) -> logging.Logger:
    """Return the logger of this name, with the one filter that makes its records fit."""
    logger = logging.getLogger(name)
    if _fit_record not in logger.filters:
        logger.addFilter(_fit_record)
    return logger


def _fit_record(record: logging.LogRecord) -> bool:
    """Make each argument fit, and indent the lines of a traceback: none of them begins like a line of a log."""
    if isinstance(record.args, tuple):
        record.args = tuple(map(_fit_argument, record.args))
    if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
        lines = _FORMATTER.formatException(record.exc_info).splitlines()
        record.exc_text = "\n".join(f"  {fit(line)}" for line in lines[-_MOST_LINES:])
    return True


def _fit_argument(value: Any) -> Any:
    """Keep numbers; each other value is a text, of which only indented lines stay lines."""
    if type(value) in _PLAIN:
        return value
    first, *others = str(value).split("\n  ")
    return "\n  ".join(map(fit, (first, *others[:_MOST_LINES]))) if not isinstance(value, str) else fit(value)
