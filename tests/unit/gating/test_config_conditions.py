"""Conditions on configs of brokers: every known broker must tell the value, and have it."""

from dataclasses import replace

import pytest
from builders import broker, deaf, view

from featuregate.errors import RequirementError
from featuregate.gating.decisions import evaluate
from featuregate.requirements import Config, ConfigHas, configs_in, parse, presets
from featuregate.view.answers import ApiRange, BrokerAnswer, BrokerConfig
from featuregate.view.cluster_view import View, with_printable_texts

NAME = "group.coordinator.rebalance.protocols"
HAS = Config(NAME).has("consumer")


def telling(node_id: int, value: str | None, problem: str = "") -> BrokerAnswer:
    return replace(broker(node_id), configs={NAME: BrokerConfig(value, problem)})


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        ("consumer", "open"),
        ("classic,consumer,streams", "open"),
        ("classic, consumer", "open"),
        ("classic", "closed"),
        ("", "closed"),
        ("consumers", "closed"),
        (None, "unknown"),
    ],
)
def test_a_broker_has_the_value_alone_or_in_a_list(value: str | None, verdict: str) -> None:
    assert evaluate(view(telling(1, "consumer"), telling(2, value)), HAS).verdict == verdict


@pytest.mark.parametrize(
    ("apis", "condition", "verdict", "said"),
    [
        ({68: (0, 1)}, f"config:{NAME} has consumer", "open", "serves ConsumerGroupHeartbeat: the level decides"),
        ({88: (0, 1)}, f"config:{NAME} has streams", "open", "serves StreamsGroupHeartbeat: the level decides"),
        ({88: (0, 1)}, f"config:{NAME} has consumer", "closed", "does not serve ConsumerGroupHeartbeat"),
        ({68: (0, 1)}, f"config:{NAME} has other", "closed", f"has no config {NAME}"),
        ({68: (0, 1)}, "config:other has consumer", "closed", "has no config other"),
    ],
)
def test_a_broker_without_the_config_is_not_one_that_hides_it(
    apis: dict[int, tuple[int, int]], condition: str, verdict: str, said: str
) -> None:
    """Where Kafka removed the config, the API shows it; any other config that a broker lacks has not the value."""
    lacking = BrokerConfig(None, "this broker has no such config", exists=False)
    answer = replace(
        broker(1),
        configs={NAME: lacking, "other": lacking},
        api_ranges={key: ApiRange(*span) for key, span in apis.items()},
    )
    decision = evaluate(view(answer), parse(condition))
    assert decision.verdict == verdict
    assert decision.reasons[0].text.endswith(said)


def test_invariant_3_a_broker_that_did_not_answer_makes_it_unknown() -> None:
    """Its config may be another one, and an answer that lacks the value closes it all the same."""
    assert evaluate(view(telling(1, "consumer"), deaf(2)), HAS).verdict == "unknown"
    assert evaluate(view(telling(1, "classic"), deaf(2)), HAS).verdict == "closed"
    assert evaluate(view(), HAS).verdict == "unknown"


def test_each_reason_names_the_broker_and_what_it_told() -> None:
    """The text says why a value is unknown, and what asks for it."""
    decision = evaluate(view(telling(1, None, "no right"), broker(2), telling(3, "classic")), HAS)
    assert [reason.text for reason in decision.reasons] == [
        f"broker 1 (b1:9092) does not tell {NAME}: no right",
        f"broker 2 (b2:9092) was not asked for {NAME}: only a gate, or configs= of discover(), asks for it",
        f"broker 3 (b3:9092) has {NAME}=classic",
    ]


def test_controllers_do_not_tell_it() -> None:
    """The config is one of brokers."""
    answer = replace(telling(1, "consumer"), role="controller")
    seen = replace(view(), role="controller", brokers=(answer,))
    assert evaluate(seen, HAS).verdict == "unknown"
    assert "not controllers" in evaluate(seen, HAS).reasons[0].text


def test_it_is_read_from_text_and_written_to_it() -> None:
    """Latches, relays and usage reports have the text."""
    text = f"config:{NAME} has consumer"
    assert (parse(text), str(HAS)) == (HAS, text)
    assert parse(f"group.version>=1 & ({text} | {text})").parts[1].parts == (HAS, HAS)
    assert parse(f"  config:{NAME}   has\tconsumer ") == ConfigHas(NAME, "consumer")
    assert repr(Config(NAME)) == f"Config({NAME!r})"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"config:{NAME}", "expected 'has'"),
        (f"config:{NAME} >= 1", "expected 'has', not '>='"),
        (f"config:{NAME} has", "expected a value"),
        (f"config:{NAME} has &", "none is a space or one of"),
        (f"config:{NAME} has a,b", "none is a space or one of"),
        ("config: has consumer", "at least one character"),
        ("config:a:b has consumer", "none is a space or one of"),
    ],
)
def test_text_that_is_no_condition_is_refused(text: str, problem: str) -> None:
    with pytest.raises(RequirementError) as caught:
        parse(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize("wrong", [1, None, b"x"])
def test_names_and_values_are_texts(wrong: object) -> None:
    """Another type is a mistake of the app."""
    with pytest.raises(TypeError):
        Config(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Config(NAME).has(wrong)  # type: ignore[arg-type]


def test_presets_name_the_configs_that_they_need() -> None:
    """Share groups do not depend on the protocols that brokers have on."""
    needing = {preset.name for preset in presets.all() if configs_in(preset) == (NAME,)}
    assert needing == {"kip848", "kip1071"}
    assert configs_in(parse("kip848 & kip1071 | zstd")) == (NAME,)


def test_configs_are_part_of_a_view_and_of_its_json() -> None:
    """A relay sends them, and the text of a problem is no content."""
    seen = view(telling(1, "classic"), telling(2, None, "no right"))
    assert View.from_json(seen.to_json()) == seen
    assert seen.same_content(view(telling(1, "classic"), telling(2, None, "still no right")))
    assert View.from_json(view(broker(1)).to_json()).brokers[0].configs == {}


def test_what_a_relay_says_of_a_config_is_fit_for_a_terminal() -> None:
    """A relay may be anybody."""
    sent = with_printable_texts(view(telling(1, "a\x1b[2J"), telling(2, None, "b\x1b[2J")))
    assert [broker.configs[NAME] for broker in sent.brokers] == [
        BrokerConfig(r"a\x1b[2J"),
        BrokerConfig(None, r"b\x1b[2J"),
    ]
