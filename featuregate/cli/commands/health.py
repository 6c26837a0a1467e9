"""``health``: whether another process is ready, by the file that it writes or the URL that it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from featuregate.cli.exit_codes import FAILED, OK, UNKNOWN, CommandError
from featuregate.errors import ConfigError
from featuregate.health.file import read_health
from featuregate.health.responses import problem_of
from featuregate.printable import printable

if TYPE_CHECKING:
    import argparse

_URL_SECONDS: Final = 5.0
_READY: Final = 200


def run(args: argparse.Namespace) -> int:
    """Print one line, and return 0 where the process is ready, 1 where it is not, 2 where nothing says."""
    is_url = args.source.startswith(("http://", "https://"))
    if is_url and (args.max_age or args.written_within):
        raise CommandError("--max-age and --written-within are for files: ask for /readyz?max-age=SECONDS")
    problem = _problem_of_url(args.source) if is_url else _problem_of_file(args)
    print(printable(problem or "ready"))
    return OK if problem is None else FAILED


def _problem_of_file(args: argparse.Namespace) -> str | None:
    try:
        written = read_health(args.source)
    except ConfigError as error:
        raise CommandError(f"argument FILE: {error.problem}", UNKNOWN) from error
    if args.written_within is not None and written.seconds > args.written_within:
        return f"the process has not written {args.source} for {written.seconds:.0f} s"
    return problem_of(written.health, args.max_age)


def _problem_of_url(url: str) -> str | None:
    """Ask for the status alone: the body, which may have any size, is not read."""
    import requests  # noqa: PLC0415 - a file needs none of it

    from featuregate.abortable import AbortableAdapter, DirectSession  # noqa: PLC0415 - likewise

    adapter = AbortableAdapter()
    try:
        with (
            DirectSession(adapter) as session,
            adapter.limited(_URL_SECONDS),
            session.get(url, timeout=_URL_SECONDS, allow_redirects=False, stream=True) as response,
        ):
            status = response.status_code
    except (requests.RequestException, OSError) as error:
        reason = f"no answer within {_URL_SECONDS:g} s" if adapter.aborted else type(error).__name__
        raise CommandError(f"{url} cannot be reached: {reason}", UNKNOWN) from error
    return None if status == _READY else f"{url} answers {status}"
