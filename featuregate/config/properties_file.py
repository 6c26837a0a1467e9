"""Read a ``.properties`` file."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from featuregate.budgets import MOST_PROPERTIES_BYTES
from featuregate.config.from_files import from_file
from featuregate.config.keys import SPELLINGS, plain_name
from featuregate.config.secrets import is_path
from featuregate.errors import ConfigError
from featuregate.files import local_path, read_file
from featuregate.patterns import pattern

_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROLS: Final = frozenset(range(0x20)) - frozenset(b"\t\n\v\f\r")
"""Control characters that no text has."""
_LINE_END: Final = pattern(r"\r\n?|\n")
_BLANKS: Final = " \t\f"
_PATH_WITH_ESCAPES: Final = pattern(
    r"^([\w.]{1,80}\.(?:location|keytab))[ \t\f]*+[=:]?+(?:\\[\\:=#! u]|[^\\\n])*+\\", re.MULTILINE
)
"""A path with a single backslash, as people of Windows write it: an escape, which leaves the backslash out."""


def read_properties(path: str | os.PathLike[str], *, of_client: bool = True) -> dict[str, str]:
    r"""Read a ``.properties`` file as Java does, in UTF-8, and in Latin-1 where the file is not UTF-8.

    Java reads every file in Latin-1, and takes a byte order mark for a part of the first name. A file in ASCII with
    escapes such as ``\u00fc`` means the same to both. The values remember that they are from a file:
    `featuregate.config.from_files` says what they may reach.

    Raises `ConfigError` where the file cannot be read, or, ``of_client``, where it has no property of Kafka's clients.
    """
    if str(path) == os.devnull:  # no device to Kafka's own tools, but a file without properties
        return from_file({})
    import javaproperties  # noqa: PLC0415

    named = repr(str(path)) if is_path(str(path)) else "the file"
    file = local_path("config", path)
    try:
        text = _decoded(read_file(file, MOST_PROPERTIES_BYTES))
        lines = _on_one_line_each(text)
        values = from_file(javaproperties.loads(lines))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except _NoTextError as error:
        problem = str(error)
    except ValueError:  # javaproperties' only one, which repeats what stands there
        problem = "is no .properties file: it has the escape \\u without four hexadecimal digits"
    else:
        if not of_client or not values or (has_known_names(values) and not _is_for_others(text, values)):
            _check_paths(lines, values)
            return values
        problem = f"has no property of Kafka's clients: {appearance(text, values)}"
    # Raised here, because both errors hold text of the file, and would be the context of this one.
    raise ConfigError("config", f"{named} {problem}")


class _NoTextError(Exception):
    """The file is not text in UTF-8 or Latin-1."""


def _check_paths(lines: str, values: Mapping[str, str]) -> None:
    for name in _PATH_WITH_ESCAPES.findall(lines):
        path = values.get(name)
        if path and not os.path.exists(path):  # noqa: PTH110 - false for a name that is too long for the system
            problem = "there is no such file: a backslash begins an escape in a .properties file, so write / or two"
            raise ConfigError(name, problem)


def _decoded(content: bytes) -> str:
    if content.startswith(_UTF_16):
        raise _NoTextError("is in UTF-16, which Java does not read either: save it in UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if _CONTROLS & set(content):
            raise _NoTextError(f"is not text in UTF-8 or Latin-1: see byte {error.start}") from None
        return content.decode("latin-1")


def _on_one_line_each(text: str) -> str:
    """Put lines that continue one another on one line, without comments: the library takes the square of such lines."""
    lines: list[str] = []
    parts: list[str] = []
    for line in _LINE_END.split(text):
        part = line.lstrip(_BLANKS)
        if not parts and part.startswith(("#", "!")):
            continue
        continues = (len(part) - len(part.rstrip("\\"))) % 2 == 1
        parts.append(part[:-1] if continues else part)
        if not continues:
            lines.append(_no_comment("".join(parts)))
            parts.clear()
    return "\n".join([*lines, _no_comment("".join(parts))])


def _no_comment(line: str) -> str:
    """Keep the name of a property that begins with ``#`` behind a line that continues."""
    return f"\\{line}" if line.startswith(("#", "!")) else line


_FIRST_WORDS: Final = frozenset(
    {
        *("acks", "allow", "api", "auto", "batch", "broker", "bootstrap", "buffer", "builtin", "check", "client"),
        *("compression", "config", "connections", "consumer", "copy", "debug", "default", "delivery", "enable"),
        *("exclude", "featuregate", "fetch", "group", "heartbeat", "https", "interceptor", "internal", "isolation"),
        *("java", "key", "linger", "log", "max", "message", "metadata", "metric", "metrics", "min", "offset"),
        *("open", "partition", "partitioner", "plugin", "produce", "queue", "queued", "receive", "reconnect"),
        *("request", "retries", "retry", "sasl", "security", "send", "session", "share", "socket", "ssl"),
        *("statistics", "telemetry", "ticker", "topic", "transaction", "transactional", "value"),
    }
)
"""The first words of the names of properties of Java's clients (4.2) and of librdkafka (2.12)."""
_JAAS: Final = pattern(r"^[ \t]*+[\w.\-]++\s*+\{", re.MULTILINE)
_SECTION: Final = pattern(r"^[ \t]*+\[[^\[\]\n]*\][ \t]*+$", re.MULTILINE)
_YAML: Final = pattern(r"^(---[ \t]*+|[ ]*+[\w.\-]++:[ ]*+)$", re.MULTILINE)
_NESTED: Final = pattern(r"^([ ]*+)[\w.\-]++:[ \t]*+\r?\n\1[ ]++[\w.\-]++:", re.MULTILINE)
"""A key of YAML with others in it."""
_OF_BROKERS: Final = frozenset(
    {"process.roles", "broker.id", "zookeeper.connect", "inter.broker.listener.name", "security.inter.broker.protocol"}
)
_WORDS: Final = frozenset({"acks", "debug", "partitioner", "retries"})
"""The names that are one word."""
_SHELL_NAME: Final = pattern(r"(export\s+)?[A-Z][A-Z0-9_]*")
_EXAMPLES: Final = "write one NAME=VALUE in each line, with names such as bootstrap.servers, security.protocol"


def has_known_names(names: Iterable[str]) -> bool:
    """Return whether any name may be that of a property of a Kafka client, also with Spark's prefix."""
    return any(name in SPELLINGS or _begins_as_known(name) for name in map(plain_name, names))


def _begins_as_known(name: str) -> bool:
    first, *others = re.split(r"[._]", name)
    return first in (_FIRST_WORDS if others else _WORDS)


def _is_for_others(text: str, names: Collection[str]) -> bool:
    """Return whether a file without a protocol is that of a broker, or nests names, some of which look like ours."""
    if {"security.protocol", "security_protocol", "kafka.security.protocol"} & set(names):
        return False
    return not _OF_BROKERS.isdisjoint(names) or _NESTED.search(text) is not None


def appearance(text: str, names: Collection[str]) -> str:
    """Return what the file looks like, and what to do. ``names`` are those that Java would read."""
    start = text.lstrip("\ufeff \t\r\n")
    if "LoginModule" in text and _JAAS.search(text):
        return (
            "it looks like a JAAS file; give what is between the braces of its KafkaClient as the property "
            "sasl.jaas.config"
        )
    if not _OF_BROKERS.isdisjoint(names):
        return f"it looks like the configuration of a broker; {_EXAMPLES}"
    if _SECTION.search(text) and not start.startswith("[\n"):
        kind = "TOML or an INI file"
    elif start.startswith(("{", "[")):
        kind = "JSON"
    elif start.startswith("<"):
        kind = "XML"
    elif all(_SHELL_NAME.fullmatch(name) or name == "export" for name in names):
        kind = "a file of environment variables"
    elif any(name.startswith("spring") for name in names):
        kind = "Spring's configuration, whose names have spring.kafka.properties. or another prefix"
    elif _YAML.search(text) or _NESTED.search(text):
        kind = "YAML"
    else:
        return f"{_EXAMPLES}, sasl.mechanism, sasl.jaas.config and ssl.truststore.location"
    return f"it looks like {kind}; {_EXAMPLES}"
