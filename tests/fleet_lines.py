"""Made-up lines of request logs."""

import json
from typing import Any

from featuregate_fleet.evidence.lines.envelopes import unwrap
from featuregate_fleet.evidence.lines.one_line import read_unwrapped
from featuregate_fleet.evidence.lines.request import LoggedRequest
from featuregate_fleet.evidence.lines.times import Layout

EVER = ("--stale-after", "1000000")
"""For readiness: the lines have a date of their own."""
TEXT = (
    "[2026-11-22 21:08:39,958] DEBUG Completed request:RequestHeader(apiKey=METADATA, apiVersion=9, clientId=a, "
    "correlationId=2) -- {topics=[]},response:{topics=[]} from connection 127.0.0.1:9092-127.0.0.1:50000-1;"
    "totalTime:16.341,requestQueueTime:0.1,throttleTime:0,securityProtocol:SSL,principal:User:a,listener:SSL"
)
"""A request as brokers before 2.8 log it."""
INVALID = "org.apache.kafka.common.errors.InvalidRequestException: "
REFUSED = (
    "[2026-11-22 21:08:17,583] ERROR Closing socket for 1.2.3.4:9-10.0.0.7:48912-8 because of error",
    f"{INVALID}Received request api key METADATA with version 99 which is not enabled",
)
"""The first two lines of a refused request, as a broker of 3.9.2 logs them."""


def document(**changed: Any) -> dict[str, Any]:
    """Return the JSON of a request, with other values for some of its fields, also for those of nested objects."""
    made: dict[str, Any] = {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": 1,
            "requestApiVersion": 16,
            "correlationId": 7,
            "clientId": "audit",
            "requestApiKeyName": "FETCH",
        },
        "request": {"topics": ["orders"]},
        "response": {"error": None},
        "connection": "127.0.0.1:9092-127.0.0.1:50000-0-1",
        "totalTimeMs": 1.5,
        "requestQueueTimeMs": 0.1,
        "throttleTimeMs": 0,
        "securityProtocol": "SASL_SSL",
        "principal": "User:audit",
        "listener": "CLIENT",
        "clientInformation": {"softwareName": "confluent-kafka-python", "softwareVersion": "2.16.1"},
    }
    for name, value in changed.items():
        owner = next((part for part in made.values() if isinstance(part, dict) and name in part), made)
        owner[name] = value
    return made


def line_of(made: dict[str, Any], head: str = "[2026-11-22 21:08:39,958] DEBUG") -> str:
    return f"{head} Completed request:{json.dumps(made, separators=(',', ':'))} (kafka.request.logger)"


def read_line(line: str, layout: Layout | None = None) -> LoggedRequest | str:
    """Return the request of the last log event of a line, or the reason why it has none."""
    return read_unwrapped(unwrap(line, layout))
