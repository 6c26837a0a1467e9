"""The flags of a cluster are the same by both doors: the provider in an app, and a relay's remote evaluation."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from apps_in_process import call
from openfeature import api

import featuregate as fg
from featuregate.flags import gate_flag, view_flags
from featuregate.testing import StaticFeatures, release_view
from featuregate_openfeature import KafkaFeatureProvider
from featuregate_relay.app import PolledCluster, make_app

GATES = {"groups": "group.version>=1", "next": "metadata.version>=99", "produce": "Produce>=13"}
KINDS = {bool: "boolean", int: "integer", str: "string", dict: "object"}
VIEWS = {
    "one release": release_view("4.2", "4.2"),
    "a roll": release_view("3.9", "4.2"),
    "a silent broker": release_view("4.2", "4.2", silent=[2]),
    "no levels": release_view("2.4"),
}


@pytest.fixture(autouse=True)
def _no_provider_stays() -> Iterator[None]:
    yield
    api.shutdown()


def over_the_relay(features: StaticFeatures, gates: tuple[fg.Gate, ...]) -> dict[str, Any]:
    """Return all flags by key: value, variant, and why."""
    app = make_app({"default": PolledCluster(features, gates)})
    path = "/ofrep/v1/evaluate/flags"
    status, _, body = asyncio.run(call(app, path, method="POST", body=b'{"context": {}}'))
    assert status == 200
    flags = json.loads(body)["flags"]
    assert all(flag["reason"] == ("STATIC" if "value" in flag else "UNKNOWN") for flag in flags)
    return {flag["key"]: (flag.get("value"), flag["variant"], flag["metadata"]["why"]) for flag in flags}


def in_the_app(features: StaticFeatures, gates: tuple[fg.Gate, ...], keys: dict[str, type]) -> dict[str, Any]:
    """Evaluate the same keys by the SDK; a default stands for no value."""
    api.set_provider_and_wait(KafkaFeatureProvider(features, gates))
    client = api.get_client()
    found = {}
    for key, kind in keys.items():
        default: Any = kind()
        details = getattr(client, f"get_{KINDS[kind]}_details")(key, default)
        assert details.error_code is None, key
        value = None if details.reason in {"UNKNOWN", "DEFAULT"} and kind is not bool else details.value
        found[key] = (value, details.variant, details.flag_metadata["why"])
    return found


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_both_doors_have_the_same_flags(view: fg.View) -> None:
    """Keys, types, values, variants and reasons: an app may move from one to the other with its flags as they are."""
    features = StaticFeatures(view)
    gates = tuple(features.gate(name, requirement) for name, requirement in GATES.items())
    relayed = over_the_relay(features, gates)
    flags = {gate.name: gate_flag(gate.decision) for gate in gates} | dict(view_flags(view))
    assert relayed.keys() == flags.keys()
    assert in_the_app(features, gates, {key: flag.type for key, flag in flags.items()}) == relayed
