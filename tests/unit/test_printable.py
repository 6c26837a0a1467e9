"""Texts of peers at every door to a terminal, a log or a page: nothing in them is obeyed, and no line is forged."""

import ast
import asyncio
import inspect
import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError
from http_serving import serving_http
from waiting import BOUND

import featuregate as fg
from featuregate.budgets import LONGEST_SAID
from featuregate.cli.app import main
from featuregate.errors import ConfigError, FeatureGateError, GateClosed, RelayError
from featuregate.gating.decisions import Decision, Reason
from featuregate.logs import get_logger
from featuregate.printable import fit, harmless, printable, shown
from featuregate.sources.relay_responses import freshness_of
from featuregate.testing import FakeCluster, release_view
from featuregate_fleet.files.storage import storage_path

ROOT = Path(__file__).parents[2]
HOSTILE = ["\x1b[31mred", "two\nlines", "\r2026-01-01 ERROR forged", "bidi\u202eevil", "\x9b2J", "\u2028", "nul\0"]
"""Escapes of a terminal, in 7 and 8 bits, line breaks of ASCII and Unicode, and a mark that turns text around."""
LONG = "x" * 1_000_000
SUPPORTED = {"metadata.version": (7, 29), **dict.fromkeys([*HOSTILE, LONG[:30_000]], (0, 3))}
FINALIZED = {"metadata.version": 29, **dict.fromkeys([*HOSTILE, LONG[:30_000]], 2)}
DOORS = [
    ["describe"],
    ["describe", "--output", "json"],
    ["matrix"],
    ["matrix", "--output", "json"],
    ["doctor"],
    ["doctor", "--output", "json"],
    ["check", "kip447"],
    ["check", "kip447", "--output", "json"],
    ["explain", "kip447"],
    ["plan", "upgrade", "--release-version", "4.2"],
    ["plan", "downgrade", "--release-version", "4.0"],
    ["watch", "--duration", "0.3"],
    ["watch", "--duration", "0.3", "--output", "json"],
]


def assert_harmless(text: str) -> None:
    """Only line breaks are control characters; each is one of this program."""
    assert {character for character in text if not character.isprintable()} <= {"\n"}
    assert "\n2026-01-01 ERROR forged" not in text
    assert "\nlines" not in text
    assert "x" * 4_001 not in text


@pytest.fixture
def hostile_cluster():
    with FakeCluster(brokers=2, supported=SUPPORTED, finalized=FINALIZED) as cluster:
        cluster.broker(2).set(supported={"metadata.version": (7, 29)})
        yield cluster


@pytest.mark.parametrize("door", DOORS, ids=" ".join)
def test_names_of_features_are_escaped_at_each_command(hostile_cluster, door, capsys) -> None:
    """On standard output and on standard error."""
    main([*door, "--bootstrap-server", hostile_cluster.bootstrap])
    said = capsys.readouterr()
    assert said.out or said.err
    assert_harmless(said.out)
    assert_harmless(said.err)


def test_an_escaped_name_is_still_shown(hostile_cluster, capsys) -> None:
    """Operators see what the broker reports."""
    hostile_cluster.broker(2).set(supported=SUPPORTED)
    main(["describe", "--bootstrap-server", hostile_cluster.bootstrap])
    said = capsys.readouterr().out
    assert "Feature: \\x1b[31mred" in said
    assert "Feature: two\\x0alines" in said


@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u00a0"])
def test_a_feature_with_a_blank_name_is_left_out(blank, capsys) -> None:
    """No controller takes such a name, so no finding, plan or verdict can be about it; the others are."""
    supported, finalized = {"metadata.version": (7, 29), blank: (0, 3)}, {"metadata.version": 28, blank: 1}
    with FakeCluster(brokers=1, supported=supported, finalized=finalized) as cluster:
        view = fg.discover(cluster.bootstrap, timeout=BOUND)
        main(["doctor", "--bootstrap-server", cluster.bootstrap])
    assert (set(view.supported), set(view.finalized)) == ({"metadata.version"}, {"metadata.version"})
    assert "featuregate plan upgrade --feature metadata.version=29" in capsys.readouterr().out


def test_a_relays_feature_with_a_blank_name_is_left_out() -> None:
    """As that of a broker."""
    view = json.loads(release_view("4.2").to_json())
    view["supported"][" "] = view["brokers"][0]["supported"][" "] = [0, 1]
    with serving_http(relay_of(json.dumps(view).encode())) as url:
        fetched = asyncio.run(fg.HttpSource(url).fetch()).view
    assert set(fetched.supported) == set(release_view("4.2").supported)
    assert " " not in fetched.brokers[0].supported


def test_changes_of_hostile_features_are_one_line_each_in_events_and_logs(hostile_cluster, caplog) -> None:
    """Each event, the log, the health and decisions show the names with escapes."""
    texts = []
    hold = {"gate": "".join([*HOSTILE, LONG])}
    with caplog.at_level(logging.DEBUG), fg.Discoverer(hostile_cluster.bootstrap, interval=3600, hold=hold) as features:
        features.on_event(lambda event: texts.append(str(event)))
        gate = features.gate("gate", "group.version>=1")
        assert features.wait(timeout=BOUND)
        hostile_cluster.broker(1).set(supported={"metadata.version": (7, 29), "\x1b]0;title\x07": (0, 1)})
        hostile_cluster.finalize({"\n2026-01-01 ERROR forged": 3})
        features.refresh(timeout=BOUND)
        texts += [str(gate.decision), json.dumps(features.health()), features.view.to_json(), repr(features.view)]
        texts += [record.getMessage() for record in caplog.records]
    for text in texts:
        assert_harmless(text)


def relay_of(body: bytes, status: int = 200):
    class Relay(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            headers = {"Featuregate-Age": "0", **freshness_of(release_view("4.2"))}
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    return Relay


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("where", ["cluster_id", "host", "failure", "supported", "finalized"])
def test_texts_in_the_view_of_a_relay_are_escaped(where, text) -> None:
    """The cluster id, hosts, failures and names of features: nothing of them steers a terminal or forges a line."""
    view = json.loads(release_view("4.2").to_json())
    broker = view["brokers"][0]
    if where == "cluster_id":
        view["cluster_id"] = text
    elif where == "host":
        broker["host"] = text
    elif where == "failure":
        broker["failure"] = {"kind": text, "text": text}
    else:
        value = [0, 1] if where == "supported" else 2
        view[where][text] = broker[where][text] = value
        view["finalized"][text] = 2
    with serving_http(relay_of(json.dumps(view).encode())) as url:
        fetched = asyncio.run(fg.HttpSource(url).fetch()).view
    shown_texts = [fetched.cluster_id, *fetched.supported, *fetched.finalized]
    for each in fetched.brokers:
        shown_texts += [each.name, *each.supported, *each.finalized, repr(each)]
        shown_texts += list(each.failure or ())
    assert all(each.isprintable() for each in shown_texts)


@pytest.mark.parametrize("text", HOSTILE)
def test_the_error_of_a_relay_is_one_line(text) -> None:
    """Whether it is JSON, or any other body."""
    for body in (json.dumps({"error": text}).encode(), text.encode(), json.dumps({text: 1}).encode()):
        for status in (200, 503):
            with serving_http(relay_of(body, status)) as url, pytest.raises(RelayError) as caught:
                asyncio.run(fg.HttpSource(url).fetch())
            assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_escaped_or_replaced(text) -> None:
    """Escaping twice changes nothing more."""
    assert printable(text).isprintable()
    assert printable(printable(text)) == printable(text)
    assert shown(text).isprintable()
    assert printable("transaction.version") == "transaction.version"


PACKAGES = [path.parent for root in (ROOT, ROOT / "integrations") for path in root.glob("featuregate*/__init__.py")]


def sources() -> dict[str, ast.Module]:
    return {str(path): ast.parse(path.read_text()) for package in PACKAGES for path in package.rglob("*.py")}


def errors(of: type[FeatureGateError] = FeatureGateError) -> Iterator[type[FeatureGateError]]:
    for module in (
        "confluent.errors",
        "confluent.client.pending",
        "fleet.errors",
        "spark.errors",
        "relay.config.relay",
    ):
        import_module(f"featuregate_{module}")
    for each in of.__subclasses__():
        yield each
        yield from errors(each)


def argument(parameter: inspect.Parameter, text: str) -> object:
    made: dict[str, object] = {
        "tuple[int": (1, 2),
        "Message": [SimpleNamespace(topic=lambda: text, partition=lambda: 0, offset=lambda: 1)],
        "Mapping": {text: 1},
        "Iterable[tuple": [(text, ValueError("x"))],
        "Iterable": [text],
        "tuple": (text,),
        "list": [text],
        "Model": SimpleNamespace(label="v2"),
        "ErrorAction": SimpleNamespace(value="abort"),
        "KafkaError": KafkaError(1, text.replace("\0", "")),  # librdkafka's texts end there
        "int": 1,
        "float": 1,
        "bool": True,
    }
    return next((value for part, value in made.items() if part in str(parameter.annotation)), text)


@pytest.mark.parametrize("text", [*HOSTILE, LONG])
@pytest.mark.parametrize("kind", dict.fromkeys(errors()), ids=lambda kind: kind.__name__)
def test_no_error_holds_a_text_that_steers_forges_or_floods(kind: type[FeatureGateError], text: str) -> None:
    """Whichever door raises it: the arguments are made fit where the error is made."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    plain = [argument(each, text) for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    named = {each.name: argument(each, text) for each in parameters if each.kind is each.KEYWORD_ONLY}
    error = kind(*(plain if plain or named else [text]), **named)
    said = [str(error), repr(error), *(each for each in vars(error).values() if isinstance(each, str))]
    assert all(len(each) < 20_000 for each in said)
    for each in said:
        assert_harmless(each)


def test_every_logger_and_every_health_passes_the_one_place() -> None:
    """A new one that does not would be a new door."""
    for path, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node).startswith("logging.getLogger('featuregate"):
                pytest.fail(f"{path}: use featuregate.logs.get_logger")
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("featuregate")]:
        if isinstance(logging.root.manager.loggerDict[name], logging.Logger) and name != "featuregate.unknown":
            assert get_logger(name).name == name
            assert len(logging.getLogger(name).filters) == 1


@pytest.mark.parametrize("text", [*HOSTILE, LONG])
def test_no_line_of_a_log_steers_forges_or_floods(text: str) -> None:
    """Not by an argument, not by an error, and not by the traceback of one."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = get_logger("featuregate.hostile")
    logger.addHandler(handler)
    try:
        logger.warning("%s of %d: %s", text, 7, ValueError(text))
        try:
            raise OSError(text)
        except OSError:
            logger.exception("failed")
    finally:
        logger.removeHandler(handler)
    said = stream.getvalue()
    assert " of 7: " in said
    assert len(said) < 20_000
    assert_harmless(said)
    assert all(line.startswith(" ") for line in said.splitlines()[2:])


@pytest.mark.parametrize("text", [*HOSTILE, LONG])
def test_no_decision_steers_forges_or_floods(text: str) -> None:
    """Whatever a broker, a store or a hold says."""
    reasons = (Reason("zstd", 1, text, "closed", text), Reason("zstd", None, None, "unknown", text))
    decision = Decision(
        verdict="closed", requirement="zstd", reasons=reasons, cluster_id=text, epoch=1, held=f"held: {text}"
    )
    for said in (str(decision), decision.summary, json.dumps(decision.to_dict()), str(GateClosed("g", decision))):
        assert len(said) < 40_000
        assert_harmless(said)


def test_a_fit_text_stays_as_it_is() -> None:
    """An error that is pickled, or raised again, is not cut again."""
    for text in (*HOSTILE, LONG, "\0" * 10_000, "x" * LONGEST_SAID, "\0" * LONGEST_SAID):
        assert fit(fit(text)) == fit(text)
        assert len(fit(text)) <= LONGEST_SAID
    assert harmless({"a": ["\n", ("\r",)], "\t": 1}) == {"a": ["\\x0a", ("\\x0d",)], "\\x09": 1}


URIS = [
    "s3://KEY:hunter2/hunter2@bucket/x",
    "https://u:hunter2@relay:8080/",
    "http://hunter2@relay:1",
    "socks5://u:hunter2@a:hunter2@proxy:1",
    "abfss:/u:hunter2@account/x",
    "x='gs://hunter2?q#hunter2@bucket'",
    "1http://u:hunter2@relay",
    "-http://hunter2@relay",
    r"HTTP:\\u:hunter2@relay",
]


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize(
    "make", [printable, shown, fit, lambda text: harmless([text])[0], lambda text: str(ConfigError("k", text))]
)
def test_of_a_uri_only_the_scheme_and_what_follows_the_last_at_is_shown(uri: str, make: Callable[[str], str]) -> None:
    """A key or a password may hold any sign, and be cut."""
    for text in (uri, f"cannot reach {uri}, see u@example.com", "y" * 3_990 + " " + uri, f"{uri} " + "y" * 5_000):
        assert "hunter2" not in make(text)


def test_what_is_left_of_a_uri_says_where() -> None:
    """Nothing else is changed."""
    assert printable("of s3://K:S/E@bucket/x and u@h") == "of s3://bucket/x and u@h"
    assert printable(r"C:\u@h\x") == r"C:\u@h\x"
    assert printable("file:///home/u@h/x of u@example.com at https://h/x") == (
        "file:///home/u@h/x of u@example.com at https://h/x"
    )


SECRET = "KEY:hunter2/hunter2@bucket/x"
URI_DOORS: dict[str, Callable[[Path], object]] = {
    "relay": lambda _: fg.HttpSource(f"https://{SECRET}"),
    "relay without a host": lambda _: fg.HttpSource(f"s3://{SECRET}"),
    "relay with a query": lambda _: fg.HttpSource("https://h/?api_key=hunter2"),
    "latch store": lambda _: fg.Discoverer("b:1", latch_store=f"s3://{SECRET}"),
    "brokers": lambda _: fg.Discoverer(f"PLAINTEXT://{SECRET}"),
    "token endpoint": lambda _: fg.Discoverer(
        {
            "bootstrap.servers": "b",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": f"https://{SECRET}",
        }
    ),
    "proxy": lambda _: fg.Discoverer({"bootstrap.servers": "b", "proxy_url": f"socks5://{SECRET}"}),
    "file of properties": lambda _: fg.Discoverer(Path(f"s3://{SECRET}")),
    "certificates": lambda _: fg.Discoverer(
        {"bootstrap.servers": "b", "security.protocol": "SSL", "ssl.ca.location": f"s3://{SECRET}"}
    ),
    "storage": lambda _: storage_path("tables", f"s3://{SECRET}"),
}


@pytest.mark.parametrize("name", URI_DOORS)
def test_no_door_that_takes_a_uri_shows_its_secret(name: str, tmp_path: Path) -> None:
    """Neither in the error, nor in what it hides."""
    with pytest.raises(FeatureGateError) as caught:
        URI_DOORS[name](tmp_path)
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in f"{error} {error!r} {vars(error)}"
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "argv",
    [
        ["health", f"http://{SECRET}"],
        ["health", f"s3://{SECRET}"],
        ["hold", "list", "--file", f"s3://{SECRET}"],
        ["plan", "disable", "--feature", "a", "--latches", f"s3://{SECRET}"],
        ["describe", "--bootstrap-server", f"PLAINTEXT://{SECRET}"],
        ["describe", "--command-config", f"s3://{SECRET}"],
        ["describe", "--output", f"s3://{SECRET}"],
        ["serve", "--config", f"s3://{SECRET}"],
        ["serve", "--bootstrap-server", "b", "--check-config", "--latches", f"s3://{SECRET}"],
        ["readiness", "--tables", f"s3://{SECRET}"],
        [f"s3://{SECRET}"],
    ],
    ids=" ".join,
)
def test_no_command_shows_the_secret_of_a_uri(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output and on standard error."""
    with suppress(SystemExit):
        main(argv)
    said = capsys.readouterr()
    assert said.out or said.err
    assert "hunter2" not in said.out + said.err
