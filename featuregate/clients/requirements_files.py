"""Reads the clients of Kafka from requirements files of pip, and from the lock files of Python's tools.

A line that is not read may name a client: it is returned, too, and the answer is unknown. Markers are not evaluated:
each line counts, because the file is for other machines as well.
"""

from __future__ import annotations

import codecs
import json
import re
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from featuregate.clients.declared import BRINGING, KAFKA, PYTHON, client, exact, may_be_client, normalized
from featuregate.files import read_file
from featuregate.toml_values import parse_toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from featuregate.clients.fit import Client

_MARKS: Final = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""PowerShell writes UTF-16 where ``pip freeze`` is sent to a file."""
_MOST_FILES: Final = 100
_COMMENT: Final = re.compile(r"(?<!\S)#.*")
_OTHER_FILE: Final = re.compile(r"(?:-([rc])\s*|--(requirement|constraint)(?:\s+|=))(\S.*)")
_OF_PIP: Final = re.compile(
    r"(?:\s*+(?:--(?:no-index|prefer-binary|require-hashes|pre)(?!\S)|(?:-i|-f|--(?:index-url|extra-index-url|find-links"
    r"|no-binary|only-binary|trusted-host|use-feature))(?:=|\s*+)\S++))+"
)
"""Options of a file by which no package is named."""
_OF_LINE: Final = re.compile(r"\s--(?:hash|config-settings?|global-option)\b.*")
_EXTRAS: Final = re.compile(r"[\w.-]+\s*\[([^\]]*)\]")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_ARCHIVE: Final = re.compile(r"([\w.-]+?)-([^-]+)(?:(?:-[^-]+){3,4}\.whl|\.(?:tar\.gz|zip))")
"""Matched here, because ``packaging`` reads each number of a version and makes each combination of tags."""
_TABLE: Final = re.compile(r"^[ \t]*\[{1,2}[\w.\"' -]+\]{1,2}[ \t\r]*$", re.MULTILINE)
_YAML: Final = re.compile(r"^(?:dependencies|channels|packages|package|name):(?:\s|$)", re.MULTILINE)
_GIVE: Final = "give a requirements file, such as the output of 'pip freeze' in that environment"


class Unread(NamedTuple):
    """A place that may name a client, and why it was not read."""

    place: str
    why: str


class Declared(NamedTuple):
    """What a file and those that it names say."""

    clients: tuple[Client, ...]
    """Each release of a client once. One that is not pinned has no version."""
    unread: tuple[Unread, ...]


def requirements_in(path: Path) -> Declared:
    """Return the clients of a requirements file, with those of ``-r`` and ``-c``, or of a lock file.

    Raises `OSError`: the file cannot be read; `UnicodeDecodeError`: it is not text.
    """
    reader = _Reader()
    reader.read(path, path, is_constraint=False)
    return reader.declared()


class _Package(NamedTuple):
    name: str
    version: str
    """Empty if that is not exact."""
    marker: str


class _Reader:
    def __init__(self) -> None:
        self._listed: dict[tuple[str, str], str] = {}
        """Name and version to the file that has them first."""
        self._constrained: dict[tuple[str, str], str] = {}
        self._bringing: dict[tuple[str, str], str] = {}
        """Packages, also with one of their extras, and their markers."""
        self._under: set[tuple[bool, str, str]] = set()
        """Whether it is a constraint, the name, and the marker: empty for what is on each machine."""
        self._unread: list[Unread] = []
        self._files: set[tuple[str, bool]] = set()

    def declared(self) -> Declared:
        """Return what was found. A constraint is the version of a client that is listed without one.

        A package that brings a client lists it, unless the file does, as lock files do. What has a marker is elsewhere
        not there: it does so for no line but those with the same one.
        """
        for (bringing, marker), found_in in self._bringing.items():
            for brought in BRINGING.get(bringing, ()):
                if not self._under & {(False, brought, ""), (False, brought, marker)}:
                    self._listed.setdefault((brought, ""), f"{found_in}, by {bringing}")
            if bringing not in BRINGING:
                self._unread.append(Unread(found_in, f"{bringing} may be or bring a client that was not measured"))
        names = {name for name, _ in self._listed}
        versions = {name: [version for known, version in self._constrained if known == name] for name in names}
        found: dict[Client, None] = {}
        for (name, version), found_in in self._listed.items():
            is_open = (True, name, "") not in self._under
            for one in [version] if version else [*versions[name], *([""] if is_open else [])]:
                found[client(name, one, found_in)] = None
        others = {name: found_in for (name, _), found_in in self._constrained.items() if name not in names}
        alone = [
            Unread(found_in, f"{name} is a constraint, and another package may bring it")
            for name, found_in in others.items()
        ]
        return Declared(tuple(found), tuple(dict.fromkeys((*self._unread, *alone))))

    def read(self, path: Path, place: Path, *, is_constraint: bool) -> None:
        """Read a file once, as a list of packages or as constraints."""
        if (key := (normpath(path), is_constraint)) in self._files:
            return
        self._files.add(key)
        text = _text(read_file(path))
        if (packages := _packages_of(text)) is None:
            self._lines(text, path, is_constraint=is_constraint)
        elif isinstance(packages, str):
            self._unread.append(Unread(str(place), packages))
        else:
            for name, version in packages:
                self._add(_Package(name, version, ""), str(path), is_constraint=is_constraint)

    def _lines(self, text: str, path: Path, *, is_constraint: bool) -> None:
        parts: list[str] = []
        for number, part in enumerate([*text.splitlines(), ""]):
            is_comment = part.lstrip().startswith("#")  # as for pip, it goes not on
            parts.append(" " + part if is_comment else part.rstrip("\\"))
            if part.endswith("\\") and not is_comment:
                continue
            line, first, parts = _COMMENT.sub("", "".join(parts)).strip(), number + 2 - len(parts), []
            if line and (why := self._line(line, path, is_constraint=is_constraint)):
                self._unread.append(Unread(f"{path} line {first}", why))

    def _line(self, line: str, path: Path, *, is_constraint: bool) -> str | None:
        """Read a line; return why that cannot be done."""
        if "${" in line:
            return "it has a variable of the environment"
        if other := _OTHER_FILE.fullmatch(line):
            return self._other(other[3], path, is_constraint=(other[1] or other[2])[0] == "c")  # as for pip, also in -c
        if line.startswith("-"):
            return None if _OF_PIP.fullmatch(line) else "what a project or an option brings is not read"
        if (found := _package_of(_OF_LINE.sub("", line))) is None:
            return "this is not a requirement with a name"
        self._add(found, str(path), is_constraint=is_constraint)
        extras = _EXTRAS.match(line)
        for extra in extras[1].split(",") if extras and not is_constraint else ():
            self._bring(f"{normalized(found.name)}[{normalized(extra.strip())}]", found.marker, str(path))
        return None

    def _other(self, name: str, path: Path, *, is_constraint: bool) -> str | None:
        if "://" in name or len(self._files) >= _MOST_FILES:
            return "the file that it names is not read: it is on another machine, or one of too many"
        try:
            self.read(path.parent / name, path.parent / name, is_constraint=is_constraint)
        except (OSError, ValueError) as error:  # also a name that no file can have
            return f"the file that it names cannot be read: {getattr(error, 'strerror', None) or 'this is not text'}"
        return None

    def _add(self, package: _Package, found_in: str, *, is_constraint: bool) -> None:
        if (name := normalized(package.name)) in PYTHON:
            known = self._constrained if is_constraint else self._listed
            known.setdefault((name, package.version), found_in)
            self._under.add((is_constraint, name, package.marker))
        elif not is_constraint:
            self._bring(name, package.marker, found_in)

    def _bring(self, name: str, marker: str, found_in: str) -> None:
        """Note a package that brings a client, or may be or bring one by its name or by that of its extra."""
        if name in BRINGING or may_be_client(name):
            self._bringing.setdefault((name, marker), found_in)


def _text(data: bytes) -> str:
    encoding = next((encoding for mark, encoding in _MARKS.items() if data.startswith(mark)), "utf-8")
    return data.decode(encoding).replace("\ufeff", "")  # files that were put together have marks within


def _package_of(line: str) -> _Package | None:
    """Return the package of a requirement, or None for one without a name."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - for this command alone

    try:
        found = Requirement(line)
    except (InvalidRequirement, RecursionError):  # a marker may have thousands of parentheses
        marker = line.partition(";")[2].strip()
        if in_file := _of_archive(line):
            return None if _may_be_a_tag(in_file[0], line) else _Package(*in_file, marker)
        name = _NAME.match(line)
        return _Package(name[0], "", marker) if name and normalized(name[0]) in PYTHON else None
    marker = str(found.marker or "")
    if found.url:
        archived, version = _of_archive(found.url) or ("", "")
        return _Package(found.name, version if normalized(archived) == normalized(found.name) else "", marker)
    pins = {one.version for one in found.specifier if one.operator in ("==", "===") and not one.version.endswith(".*")}
    return _Package(found.name, pins.pop() if len(pins) == 1 else "", marker)


def _of_archive(place: str) -> tuple[str, str] | None:
    """Return name and version by the name of a wheel or of a source distribution, at a path or URL."""
    file = re.split(r"[;#?\s]", place, maxsplit=1)[0].rpartition("/")[2]
    found = _ARCHIVE.fullmatch(file)
    return (found[1], found[2]) if found and exact(found[2]) else None


def _may_be_a_tag(name: str, place: str) -> bool:
    """Say whether hosts of git may have named an archive of a client by its tag, as in ``kafka-python/release-2.0``.

    A wheel has the name of its package. A marker stands behind the URL.
    """
    url = re.split(r"[;\s]", place.lower(), maxsplit=1)[0]
    is_source = "://" in url and ".whl" not in url
    return is_source and KAFKA in url and normalized(name) not in PYTHON and not may_be_client(name)


def _packages_of(text: str) -> Iterable[tuple[str, str]] | str | None:
    """Return names and versions of a lock file, what the file is instead, or None for lines of requirements."""
    begin = text.lstrip()
    if begin.startswith("{"):
        return _of_json(begin)
    if _TABLE.search(text):
        return _of_toml(text)
    if _YAML.search(text):
        return f"this is YAML, such as an environment of conda, which is not read: {_GIVE}"
    if begin.startswith(("<", "[")):
        return f"this is neither a requirements file nor a lock file: {_GIVE}"
    return None


def _of_json(text: str) -> list[tuple[str, str]] | str:
    """Return the packages of a Pipfile.lock."""
    try:
        document = json.loads(text, object_pairs_hook=_each_once)
        sections = [document[name] for name in document if name != "_meta"] if "_meta" in document else []
        found = [(name, _pinned(one.get("version"))) for section in sections for name, one in section.items()]
    except (ValueError, RecursionError, AttributeError, TypeError):
        found = []
    return found or f"this is JSON, and not the lock file of Pipenv, or has a name twice: {_GIVE}"


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):  # as a merge leaves it: which one counts is not known
        raise ValueError("a name twice")
    return found


def _of_toml(text: str) -> list[tuple[str, str]] | str:
    """Return the packages of the lock file of Poetry, uv or PDM, or of a pylock.toml."""
    try:
        found = list(_locked(parse_toml(text)))
    except (ValueError, KeyError, TypeError, AttributeError):
        found = []
    return (
        found
        or f"this is not a lock file with packages, such as poetry.lock, uv.lock, pdm.lock or pylock.toml: {_GIVE}"
    )


def _locked(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for package in [*document.get("package", ()), *document.get("packages", ())]:
        name = _named(package["name"])
        is_app = name not in PYTHON and {"virtual", "editable"} & {*package.get("source", ())}  # what it needs is here
        yield "" if is_app else name, _pinned(package.get("version"))


def _named(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(name)
    return name


def _pinned(version: object) -> str:
    return version.removeprefix("==") if isinstance(version, str) else ""
