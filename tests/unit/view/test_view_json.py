"""A view as JSON, both ways, and what is refused."""

import json
import re
from dataclasses import replace

import pytest
from builders import broker, deaf, view
from hypothesis import given
from strategies import views

from featuregate.budgets import MOST_APIS, MOST_NODES
from featuregate.errors import ViewJsonError
from featuregate.view.answers import ApiRange, BrokerAnswer, BrokerConfig, SupportedRange
from featuregate.view.cluster_view import View
from featuregate.view.merging import merge

WHOLE = merge(
    [
        BrokerAnswer(
            node_id=1,
            host="b1",
            port=9092,
            api_ranges={0: ApiRange(0, 13), 1: ApiRange(4, 18), 999: ApiRange(0, 1)},
            supported={"group.version": SupportedRange(0, 2)},
            finalized={"group.version": 2},
            epoch=5613,
            asked_version=4,
            answered_at=1700000000.5,
        )
    ],
    cluster_id="c",
    controller_id=3,
    seen_at=1700000001,
)


def document() -> dict:
    return json.loads(WHOLE.to_json())


def test_the_document_is_as_documented() -> None:
    """Other programs read it, so its shape is a promise."""
    levels = {"epoch": 5613, "finalized": {"group.version": 2}, "supported": {"group.version": [0, 2]}}
    fetch = {"name": "Fetch", "min": 4, "max": 18}
    new = {"name": "api:999", "min": 0, "max": 1}
    produce = {"name": "Produce", "min": 0, "max": 13}
    assert document() == {
        "schema_version": 1,
        "cluster_id": "c",
        "role": "broker",
        "broker_list": "cluster",
        "controller_id": 3,
        "seen_at": 1700000001,
        "incomplete": False,
        **levels,
        "api_ranges": {"0": {**produce, "min": 3}, "1": fetch, "999": new},
        "brokers": [
            {
                "node_id": 1,
                "host": "b1",
                "port": 9092,
                "answered_at": 1700000000.5,
                "asked_version": 4,
                "failure": None,
                **levels,
                "api_ranges": {"0": produce, "1": fetch, "999": new},
            }
        ],
    }


def test_it_is_one_line() -> None:
    """Logs and JSON lines take the text as it is."""
    assert "\n" not in view(broker(1), deaf(2)).to_json()


def test_texts_stay_as_they_are_and_numbers_are_json() -> None:
    """Every reader of JSON takes the text."""
    assert '"cluster_id": "Zürich"' in view(cluster_id="Zürich").to_json()
    with pytest.raises(ValueError, match="not JSON compliant"):
        replace(view(), seen_at=float("nan")).to_json()


@given(views())
def test_what_was_written_is_read_back(one: View) -> None:
    """The view keeps all fields, wrong answers of brokers included."""
    assert View.from_json(one.to_json()) == one


@pytest.mark.parametrize(
    "other",
    [
        {"epoch": 11},
        {"finalized": {"x": 1}},
        {"supported": {"x": SupportedRange(0, 1)}},
        {"api_ranges": {1: ApiRange(0, 1)}},
    ],
)
def test_a_broker_that_differs_in_one_thing_is_read_back(other: dict) -> None:
    """What brokers say alike is written once, and what one of them says otherwise is not lost."""
    one = view(broker(1), replace(broker(2), **other))
    assert View.from_json(one.to_json()).brokers == one.brokers


def test_brokers_that_say_the_same_share_it_after_reading_too() -> None:
    """A saved view of many brokers is as small as the one that was saved."""
    said = replace(
        broker(1, x=1),
        supported={"x": SupportedRange(0, 1)},
        configs={
            "a": BrokerConfig("1"),
            "b": BrokerConfig(None, "not allowed"),
            "c": BrokerConfig(None, "", exists=False),
        },
    )
    read = View.from_json(view(said, replace(said, node_id=2)).to_json())
    one, other = read.brokers
    for name in ("api_ranges", "supported", "finalized", "configs"):
        assert getattr(one, name) is getattr(other, name)
    assert read.finalized is one.finalized
    assert one == said


def test_unknown_fields_are_skipped() -> None:
    """A later release may add some without a new schema version."""
    more = document()
    more["colour"] = more["brokers"][0]["colour"] = more["api_ranges"]["1"]["colour"] = "blue"
    assert View.from_json(json.dumps(more)) == WHOLE


def test_a_newer_schema_is_refused_in_one_line() -> None:
    """Half understood is worse than not at all."""
    newer = {**document(), "schema_version": 2}
    with pytest.raises(ViewJsonError, match=r"^view\.schema_version: 2 is newer than 1, .*: upgrade"):
        View.from_json(json.dumps(newer))


@pytest.mark.parametrize(
    ("path", "wrong", "complaint"),
    [
        (("schema_version",), "1", "view.schema_version: expected an integer, not '1'"),
        (("epoch",), True, "view.epoch: expected an integer, not True"),
        (("epoch",), 1.0, "view.epoch: expected an integer, not 1.0"),
        (("cluster_id",), 7, "view.cluster_id: expected a string, not 7"),
        (("role",), "leader", "view.role: expected 'broker' or 'controller', not 'leader'"),
        (("broker_list",), ["cluster"], "view.broker_list: expected 'cluster' or 'bootstrap', not ['cluster']"),
        (("seen_at",), None, "view.seen_at: expected a number, not None"),
        (("seen_at",), 10**400, "view.seen_at: expected a finite number, not 1000"),
        (("finalized",), [], "view.finalized: expected an object, not []"),
        (("finalized", "group.version"), "1", "view.finalized.group.version: expected an integer, not '1'"),
        (
            ("finalized", "group.version"),
            2**15,
            "view.finalized.group.version: expected an integer of 16 bits, not 32768",
        ),
        (("epoch",), 2**63, "view.epoch: expected an integer of 64 bits, not 9223372036854775808"),
        (
            ("supported", "group.version"),
            [0],
            "view.supported.group.version: expected the lowest and the highest level, not [0]",
        ),
        (("supported", "group.version"), [0, None], "view.supported.group.version[1]: expected an integer, not None"),
        (("api_ranges", "x"), {"min": 0, "max": 1}, "view.api_ranges.x: expected the key of an API"),
        (("api_ranges", "1"), {"min": 0}, "view.api_ranges.1.max: this is missing"),
        (("brokers",), {}, "view.brokers: expected an array, not {}"),
        (("brokers", 0), 1, "view.brokers[0]: expected an object, not 1"),
        (("brokers", 0, "port"), "9092", "view.brokers[0].port: expected an integer, not '9092'"),
        (("brokers", 0, "failure"), {"kind": "x"}, "view.brokers[0].failure.text: this is missing"),
        (("brokers", 0, "host"), list(range(99)), "view.brokers[0].host: expected a string, not [0, 1, 2,"),
    ],
)
def test_a_wrong_value_is_refused_where_it_stands(path: tuple, wrong: object, complaint: str) -> None:
    """JSON comes from files and other programs: each value is checked, and the error says where."""
    broken = document()
    at = broken
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = wrong
    with pytest.raises(ViewJsonError, match=f"^{re.escape(complaint)}") as raised:
        View.from_json(json.dumps(broken))
    assert len(str(raised.value)) < 150


def test_more_than_any_cluster_has_is_refused() -> None:
    """A document that a peer sends may cost so much and no more."""
    many = document()
    many["finalized"] = {f"f{at}": 1 for at in range(MOST_APIS)}
    assert len(View.from_json(json.dumps(many)).finalized) == MOST_APIS
    many["finalized"]["more"] = 1
    with pytest.raises(ViewJsonError) as raised:
        View.from_json(json.dumps(many))
    assert str(raised.value) == (f"view.finalized: {MOST_APIS + 1} are more than the {MOST_APIS} that are believed")
    many = {**document(), "brokers": [0] * (MOST_NODES + 1)}
    with pytest.raises(ViewJsonError) as raised:
        View.from_json(json.dumps(many))
    assert str(raised.value) == f"view.brokers: {MOST_NODES + 1} brokers are more than a cluster can have"
    many["brokers"].pop()
    with pytest.raises(ViewJsonError, match=r"^view\.brokers\[0\]: expected an object"):
        View.from_json(json.dumps(many))


@pytest.mark.parametrize("field", sorted({*document()} - {"incomplete"}))
def test_a_missing_field_is_refused(field: str) -> None:
    """There are no defaults to guess."""
    broken = document()
    del broken[field]
    with pytest.raises(ViewJsonError, match=rf"^view\.{field}: this is missing$"):
        View.from_json(json.dumps(broken))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"epoch": NaN}', "9" * 5000])
def test_what_is_no_json_is_refused(text: str) -> None:
    """Nor do deep nesting, endless numbers and NaN do harm."""
    with pytest.raises(ViewJsonError, match=r"^view: this is not JSON: "):
        View.from_json(text)


@pytest.mark.parametrize("text", ["1", "null", "[]", '"view"'])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    """It is no view."""
    with pytest.raises(ViewJsonError, match=r"^view: expected an object"):
        View.from_json(text)
