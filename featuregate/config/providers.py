"""``config.providers``: placeholders such as ``${env:NAME}``, which Kafka's Java clients replace (KIP-297).

The three providers of Kafka are read as Kafka reads them (``ConfigTransformer``, ``EnvVarConfigProvider``,
``FileConfigProvider`` and ``DirectoryConfigProvider``). A placeholder that nothing replaces is an error here, where
Java sends the placeholder itself. Errors never hold a value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from featuregate.config.from_files import InertText, require_path, require_variable
from featuregate.config.properties_file import read_properties
from featuregate.config.secrets import is_path
from featuregate.errors import ConfigError
from featuregate.files import read_file
from featuregate.patterns import pattern

_PROVIDERS: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_MARK: Final = "${"
_MOST_PROVIDERS: Final = 100
_UNCLOSED: Final = pattern(r"\$\{([^{}:]*):")
_MOST_REPEATS: Final = 3
_REPEATS: Final = pattern(r"[*+?{]")
_OF_A_SHELL: Final = pattern(r"\$\{[A-Za-z_][A-Za-z0-9_.]*\}")
_NAME: Final = pattern(r"[A-Za-z][\w.\-]{0,99}")
_LONGEST_NAME: Final = 200
_LONGEST_PATTERN: Final = 1000


class _Provider(NamedTuple):
    name: str
    java_class: str
    parameters: Mapping[str, str]


class Placeholders:
    """Replaces placeholders by values of the configured providers; errors put ``prefix`` before names of properties."""

    def __init__(self, properties: Mapping[str, object], prefix: str = "") -> None:
        self._prefix = prefix
        said = {name: str(value) for name, value in properties.items() if name.startswith(_PROVIDERS)}
        names = [name.strip() for name in said.get(_PROVIDERS, "").split(",")]
        if len(names) > _MOST_PROVIDERS:
            raise ConfigError(prefix + _PROVIDERS, f"names more than {_MOST_PROVIDERS} providers")
        self._providers = {name: _provider(name, said) for name in names if f"{_PROVIDERS}.{name}.class" in said}

    def replace(self, key: str, value: object) -> object:
        """Return the value with every placeholder replaced once, as Kafka does; a value that is not a text as it is.

        Raises `ConfigError` for a placeholder that has no value.
        """
        if not isinstance(value, str) or _MARK not in value:
            return value
        for found in _UNCLOSED.finditer(value, value.rfind("}") + 1):
            if found[1] in self._providers:
                raise ConfigError(key, f"has a placeholder of the provider {found[1]} without its closing brace")
        if _OF_A_SHELL.search(value):
            raise ConfigError(
                key,
                "holds a placeholder as ${NAME}, which Kafka's clients send as it is: put the value in, or write "
                "${env:NAME} and configure config.providers",
            )
        parts = [
            part if isinstance(part, str) else self._value(key, value, part) for part in _split_placeholders(value)
        ]
        return value if isinstance(value, InertText) else type(value)("".join(parts))

    def _value(self, key: str, text: str, found: _Placeholder) -> str:
        name, path, wanted = found
        provider = self._providers.get(name)
        if provider is None:
            raise ConfigError(key, _undeclared(name, f"{self._prefix}{_PROVIDERS}"))
        read = _READERS.get(provider.java_class)
        if read is None:
            ours = ", ".join(each.removeprefix(_PACKAGE) for each in _READERS)
            raise ConfigError(
                key,
                f"holds a placeholder of the provider {name}, and {_PROVIDERS}.{name}.class is a Java class that is "
                f"not run here: use one of {ours}, or put the value in",
            )
        if read is _of_environment:
            require_variable(key, text, wanted)
        else:
            require_path(key, text, path if read is _of_file else os.path.join(path, wanted))  # noqa: PTH118 - most configurations have no placeholders
        if isinstance(text, InertText):
            return ""
        try:
            return read(provider, path, wanted)
        except _NoValue as error:
            whole = f"${{{name}:{path}{':' if path else ''}{wanted}}}"
            plain = all(not part or _NAME.fullmatch(part) or is_path(part) for part in (path, wanted))
            shown = whole if plain else f"${{{name}:...}}"
            raise ConfigError(key, f"holds {shown}, which has no value: {error}") from None


class _Placeholder(NamedTuple):
    provider: str
    path: str
    key: str


def _split_placeholders(text: str) -> Iterator[str | _Placeholder]:
    """Split as ``ConfigTransformer.DEFAULT_PATTERN`` finds them, in one pass: its expression takes the fourth power."""
    at = 0
    while (start := text.find(_MARK, at)) >= 0 and (end := text.find("}", start)) >= 0:
        name, colon, rest = text[start + len(_MARK) : end].partition(":")
        if colon:
            path, colon, wanted = rest.partition(":")
            yield text[at:start]
            yield _Placeholder(name, path, wanted) if colon else _Placeholder(name, "", rest)
        else:
            yield text[at : end + 1]
        at = end + 1
    yield text[at:]


def without_placeholders(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a client that knows no ``config.providers``: without them, and with their values.

    Raises `ConfigError` for a placeholder that has no value.
    """
    placeholders = Placeholders(properties)
    return {
        name: placeholders.replace(name, value) for name, value in properties.items() if not name.startswith(_PROVIDERS)
    }


def _undeclared(name: str, names: str) -> str:
    usual = _USUAL.get(name)
    of_provider = f" of the provider {name}" if usual else " of a provider"
    ways = f"set {names}={name} and {names}.{name}.class={usual}" if usual else f"set {names}"
    return (
        f"holds a placeholder{of_provider} that {names} does not configure, so that Kafka's clients send the "
        f"placeholder itself: {ways}, or put the value in"
    )


class _NoValue(Exception):
    """A provider has no value for a placeholder."""


def _provider(name: str, said: Mapping[str, str]) -> _Provider:
    start = f"{_PROVIDERS}.{name}.param."
    parameters = {key.removeprefix(start): value for key, value in said.items() if key.startswith(start)}
    return _Provider(name, said[f"{_PROVIDERS}.{name}.class"].strip(), parameters)


def _of_environment(provider: _Provider, path: str, key: str) -> str:
    if path:
        raise _NoValue("the environment has no paths, and Kafka's providers know no default values")
    if not _allowlisted(provider, key):
        raise _NoValue(f"config.providers.{provider.name}.param.allowlist.pattern does not allow it")
    if key not in os.environ:
        raise _NoValue("the environment of this process has no such variable")
    return os.environ[key]


def _allowlisted(provider: _Provider, key: str) -> bool:
    """Match one alternative after the other, without groups and with few repeats, so that no pattern takes forever."""
    pattern = provider.parameters.get("allowlist.pattern", "")
    if not pattern:
        return True
    parts = pattern.split("|")
    if (
        len(pattern) <= _LONGEST_PATTERN
        and "(" not in pattern
        and all(len(_REPEATS.findall(part)) <= _MOST_REPEATS for part in parts)
    ):
        try:
            return len(key) <= _LONGEST_NAME and any(re.fullmatch(part, key) for part in parts)
        except (re.error, OverflowError):
            pass
    raise _NoValue(
        f"config.providers.{provider.name}.param.allowlist.pattern is not a regular expression of at most "
        f"{_LONGEST_PATTERN} characters without groups, of at most {_MOST_REPEATS} repeats in each alternative"
    )


def _of_file(provider: _Provider, path: str, key: str) -> str:
    values = read_properties(_allowed(provider, path, "FILE"), of_client=False)
    if key not in values:
        raise _NoValue("the file has no such property")
    return values[key]


def _of_directory(provider: _Provider, path: str, key: str) -> str:
    from pathlib import Path  # noqa: PLC0415 - most configurations have no placeholders

    folder = Path(_allowed(provider, path, "FOLDER"))
    file = folder / key
    if key in {"", ".", ".."} or file.parent != folder or not file.is_file():
        raise _NoValue("the folder has no such file")
    try:
        return read_file(file).decode("utf-8")
    except OSError as error:
        raise _NoValue(f"the file cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _NoValue("the file is not in UTF-8") from None


def _allowed(provider: _Provider, path: str, kind: str) -> str:
    """Return the path without ``..``, if ``allowed.paths`` has it."""
    if not path:
        raise _NoValue(f"it names no path: write ${{{provider.name}:{kind}:KEY}}")
    normal, allowed = os.path.normpath(path), provider.parameters.get("allowed.paths", "")
    folders = [os.path.normpath(each) for each in allowed.split(",")] if allowed else [normal]
    if not any(normal == each or normal.startswith(each.rstrip("/") + "/") for each in folders):
        raise _NoValue(f"config.providers.{provider.name}.param.allowed.paths does not allow it")
    return normal


_READERS: Final[Mapping[str, Callable[[_Provider, str, str], str]]] = {
    f"{_PACKAGE}EnvVarConfigProvider": _of_environment,
    f"{_PACKAGE}FileConfigProvider": _of_file,
    f"{_PACKAGE}DirectoryConfigProvider": _of_directory,
}
_USUAL: Final = dict(zip(("env", "file", "dir"), _READERS, strict=True))
"""The names that Kafka's documentation gives its providers."""
