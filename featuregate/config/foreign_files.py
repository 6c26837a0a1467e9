"""What a file looks like that has no property of Kafka's clients, and what is meant by it. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from featuregate.config.keys import SPELLINGS

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
_JAAS: Final = re.compile(r"^[ \t]*+[\w.\-]++\s*+\{", re.MULTILINE)
_SECTION: Final = re.compile(r"^[ \t]*+\[[^\[\]\n]*\][ \t]*+$", re.MULTILINE)
_YAML: Final = re.compile(r"^(---[ \t]*+|[ ]*+[\w.\-]++:[ ]*+)$", re.MULTILINE)
_SHELL_NAME: Final = re.compile(r"(export\s+)?[A-Z][A-Z0-9_]*")
_EXAMPLES: Final = "write one NAME=VALUE in each line, with names such as bootstrap.servers, security.protocol"


def has_known_names(names: Iterable[str]) -> bool:
    """Return whether any name may be that of a property of a Kafka client, also with Spark's prefix."""
    return any(name in SPELLINGS or re.split(r"[._]", name)[0] in _FIRST_WORDS for name in map(_unprefixed, names))


def appearance(text: str, names: Collection[str]) -> str:
    """Return what the file looks like, and what to do. ``names`` are those that Java would read."""
    start = text.lstrip("\ufeff \t\r\n")
    if "LoginModule" in text and _JAAS.search(text):
        return (
            "it looks like a JAAS file; give what is between the braces of its KafkaClient as the property "
            "sasl.jaas.config"
        )
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
    elif _YAML.search(text):
        kind = "YAML"
    else:
        return f"{_EXAMPLES}, sasl.mechanism, sasl.jaas.config and ssl.truststore.location"
    return f"it looks like {kind}; {_EXAMPLES}"


def _unprefixed(name: str) -> str:
    return name.removeprefix("kafka.")
