"""Which clients an environment has, and whether they work: what users call."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from featuregate.catalog import METADATA_VERSION, newest_level
from featuregate.clients.declared import KAFKA, PYTHON, python_packages
from featuregate.clients.fit import RELEASE, Client, Finding, Fit, fit_of, newer_for
from featuregate.errors import ConfigError
from featuregate.view.cluster_view import View, named
from featuregate.view.releases import releases_of

if TYPE_CHECKING:
    from featuregate.requirements.presets import Preset

_LIMIT: Final = 30.0
"""Seconds for another interpreter to list its packages."""
_ISOLATED: Final = """from __future__ import annotations
import sys
sys.path[:] = [place for place in sys.path if place]  # no module of the folder at hand
import json
"""


def installed(python: str | None = None) -> tuple[Client, ...]:
    """Return the clients of Kafka that are installed here, or in the environment of another interpreter.

    Nothing is imported but the metadata of packages. What may be a client by its name is among them.

    Raises `ConfigError`: the other interpreter does not start, or does not list its packages.

    Parameters
    ----------
    python
        The path of the other interpreter, which must be Python 3.8 or newer.
    """
    if python is not None:
        return python_packages(_packages_of(python), python)
    return python_packages(packages(PYTHON, KAFKA), sys.prefix)


def packages(names: Iterable[str], part: str) -> dict[str, str | None]:
    """Return the versions of packages with one of these names, or with this part in their names.

    A package that was removed half way, or whose metadata cannot be read, has None. The source of this function runs
    in other interpreters, too, and so uses nothing of this module.
    """
    from importlib import metadata  # noqa: PLC0415 - it imports sockets, of which an app that asks gates needs none

    def said(package: metadata.Distribution, field: str) -> str | None:
        try:
            fields = package.metadata
            return fields[field] if field in fields else None  # noqa: SIM401 - this type has no get
        except ValueError:  # it is not UTF-8
            return None

    def mentions(package: metadata.Distribution) -> bool:
        """Look before all fields are parsed, which takes three times as long."""
        try:
            texts = [package.read_text(name) or "" for name in ("METADATA", "PKG-INFO", "")]
        except ValueError:
            return False
        return part in "".join(texts).lower()

    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = said(metadata.distribution(name), "Version")
        except metadata.PackageNotFoundError:
            continue
    for package in filter(mentions, metadata.distributions()):
        if part in (name := said(package, "Name") or "").lower():
            found.setdefault(name, said(package, "Version"))
    return found


def fit(
    view_or_release: View | str, clients: Iterable[Client] | None = None, *, sasl: str | None = None
) -> tuple[Fit, ...]:
    """Say of each client whether it works on a release of Kafka, or on the brokers of a view.

    Where the brokers of a view run several releases, the result has the worst of each client. Where one may run another
    release, because it did not answer or is newer than the table of clients, a client breaks or is unknown.

    Raises `ConfigError`: no release was captured that is like this one, or no broker of the view answered.

    Parameters
    ----------
    view_or_release
        A view, or a release such as ``"4.2"``.
    clients
        By default those that are installed here.
    sasl
        The mechanism that the clients log in with, such as ``SCRAM-SHA-512``.
    """
    releases = releases_of(view_or_release)
    order = ("works", "depends", "unknown", "breaks")
    found = installed() if clients is None else tuple(clients)
    worst = (
        max((fit_of(client, release, sasl=sasl) for release in releases), key=lambda one: order.index(one.verdict))
        for client in found
    )
    others = "" if isinstance(view_or_release, str) else _of_other_releases(view_or_release)
    return tuple(_unknown(each, others) if others and each.verdict != "breaks" else each for each in worst)


def _of_other_releases(view: View) -> str:
    """Say which brokers may run another release than those that were found; empty where none may."""
    newest = newest_level(METADATA_VERSION) or 0
    newer = [each for each in view.answering if (can := each.can_run(METADATA_VERSION)) and can.max > newest]
    if view.missing:
        return f"{named(view.missing)} did not answer, and may run any release"
    return f"{named(newer)} may run a newer release than featuregate knows, by metadata.version" if newer else ""


def _unknown(found: Fit, why: str) -> Fit:
    finding = Finding(step=RELEASE, fate="unknown", why=why)
    return replace(found, verdict="unknown", findings=(finding, *found.findings))


def not_ready(preset: Preset, clients: Iterable[Client] | None = None) -> dict[Client, str]:
    """Return the clients that are too old for what a preset is about, each with the first release that is not.

    A gate on a preset is about brokers, and opens whatever the client can do. A client that was not measured is not in
    the result, and nor is any for a preset without :attr:`~featuregate.requirements.presets.Preset.clients`.

    Parameters
    ----------
    preset
        Such as ``fg.presets.kip932``.
    clients
        By default those that are installed here.
    """
    found = installed() if clients is None else clients
    return {client: newer for client in found if (newer := newer_for(preset, client)) is not None}


def _packages_of(python: str) -> dict[str, str | None]:
    import inspect  # noqa: PLC0415 - as above: an app that asks gates needs neither
    import subprocess  # noqa: PLC0415

    listing = f"{_ISOLATED}{inspect.getsource(packages)}print(json.dumps(packages({PYTHON!r}, {KAFKA!r})))"
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the user names
            [python, "-c", listing], capture_output=True, text=True, timeout=_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or f"it did not end within {_LIMIT:.0f} s"
        raise ConfigError("python", f"{python} does not start: {reason}") from error
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it printed no error"])[-1]
        raise ConfigError("python", f"{python} does not list its packages: {said}")
    *_, last = done.stdout.splitlines() or [""]  # a start-up file of the environment may print, too
    try:
        found: dict[str, str | None] = json.loads(last)
    except ValueError:
        raise ConfigError("python", f"{python} does not list its packages: is it an interpreter of Python?") from None
    return found
