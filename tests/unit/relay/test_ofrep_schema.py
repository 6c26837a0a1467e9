"""Requests that schemathesis makes up from the protocol's description: each answer is one that OFREP 0.3.0 allows."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, given, settings
from relay_on_socket import serving
from schemathesis.core.failures import FailureGroup

from featuregate.testing import StaticFeatures, release_view

pytestmark = pytest.mark.slow

# The protocol in the words of OpenAPI, written anew from its text; tighter where the relay promises more.
TEXT = {"type": "string"}
VALUE = {"type": ["boolean", "integer", "string", "object"]}
METADATA = {"type": "object", "additionalProperties": {"type": ["boolean", "string", "number"]}}
FLAG = {
    "type": "object",
    "required": ["key", "reason", "variant"],
    "properties": {
        "key": TEXT,
        "value": VALUE,
        "variant": TEXT,
        "reason": {"enum": ["STATIC", "UNKNOWN"]},
        "metadata": METADATA,
    },
    "additionalProperties": False,
}
ALL_FLAGS = {
    "type": "object",
    "required": ["flags"],
    "properties": {"flags": {"type": "array", "items": FLAG}, "metadata": METADATA},
    "additionalProperties": False,
}


def failure(*codes: str, key: bool) -> dict[str, Any]:
    """Return the schema of an error; that of a single flag names its key."""
    properties = {"errorCode": {"enum": list(codes)}, "errorDetails": TEXT} | ({"key": TEXT} if key else {})
    return {"type": "object", "required": [*properties], "properties": properties, "additionalProperties": False}


def operation(success: dict[str, Any], *, key: bool, **responses: dict[str, Any]) -> dict[str, Any]:
    bad = failure("PARSE_ERROR", "INVALID_CONTEXT", key=key)
    answers = {"200": success, "400": bad, "413": bad} | responses
    body = {"type": "object", "properties": {"context": {"type": "object"}}}
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            status: {"description": status, "content": {"application/json": {"schema": schema}}}
            for status, schema in answers.items()
        },
    }


KEY = {"name": "key", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
CONDITION = {"name": "If-None-Match", "in": "header", "schema": TEXT}
ONE = operation(FLAG, key=True, **{"404": failure("FLAG_NOT_FOUND", key=True)})
ALL = operation(ALL_FLAGS, key=False)
ALL["responses"]["304"] = {"description": "the flags are the same"}
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "OFREP", "version": "0.3.0"},
    "paths": {
        "/ofrep/v1/evaluate/flags/{key}": {"post": {"parameters": [KEY], **ONE}},
        "/ofrep/v1/evaluate/flags": {"post": {"parameters": [CONDITION], **ALL}},
    },
}
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


def official() -> dict[str, Any]:
    """Return the protocol's own description: github.com/open-feature/protocol at d1a63a4, Apache-2.0.

    No flag with a value satisfies it as published: a value of any type is also a default of the code, which may have
    none, and exactly one type must match. And the relay of this test does not authenticate clients.
    """
    path = Path(__file__).parents[2] / "data" / "ofrep" / "openapi.yaml"
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    del document["security"]
    _, types = document["components"]["schemas"]["evaluationSuccess"]["allOf"]
    types["anyOf"] = types.pop("oneOf")
    return document


DESCRIPTIONS = {"with what the relay promises": SCHEMA, "official": schemathesis.openapi.from_dict(official())}


@pytest.fixture(scope="module")
def relay() -> Iterator[str]:
    features = StaticFeatures(release_view("4.2"))
    with serving({"default": features}, features.gate("groups", "group.version>=1")) as url:
        yield url


@pytest.mark.parametrize("description", DESCRIPTIONS)
@pytest.mark.parametrize("path", DOCUMENT["paths"])
@pytest.mark.no_cover
def test_each_answer_is_one_that_the_protocol_allows(path: str, description: str, relay: str) -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(DESCRIPTIONS[description][path]["POST"].as_strategy())
    def ask(case: schemathesis.Case) -> None:
        case.call_and_validate(base_url=relay)

    ask()


def test_an_answer_that_the_protocol_does_not_allow_is_seen(relay: str) -> None:
    """The test above would fail."""
    other = copy.deepcopy(DOCUMENT)
    post = other["paths"]["/ofrep/v1/evaluate/flags"]["post"]
    post["responses"]["200"]["content"]["application/json"]["schema"]["required"] = ["nothing"]
    case = schemathesis.openapi.from_dict(other)["/ofrep/v1/evaluate/flags"]["POST"].Case(body={"context": {}})
    with pytest.raises(FailureGroup, match="nothing"):
        case.call_and_validate(base_url=relay)
