"""Clients are read from what declares them, as text."""

import json
import sys

import pytest

import featuregate as fg
from featuregate.clients.declared import declared, requirements
from featuregate.errors import ConfigError


def read(name: str, text: str) -> list[tuple[str, str]]:
    """Return names and versions."""
    return [(found.name, found.version) for found in declared(name, lambda: text)]


def test_requirements_have_pinned_versions():
    """A name may be spelled in any way that pip accepts; a client that is not pinned has no version."""
    text = """
    # confluent-kafka==0.1
    Confluent_Kafka[avro] == 2.6.0 ; python_version > "3.8"  # the client
    kafka-python>=2.0
    aiokafka==0.10.0 --hash=sha256:00
    -r other.txt
    requests==2.31
    """
    found = [(each.name, each.version) for each in requirements(text, "requirements.txt")]
    assert found == [("confluent-kafka", "2.6.0"), ("kafka-python", ""), ("aiokafka", "0.10.0")]


def test_npm_lists_packages_at_any_depth():
    """A client may be a dependency of a dependency."""
    tree = {"dependencies": {"app": {"dependencies": {"kafkajs": {"version": "2.2.4"}}}, "node-rdkafka": {}}}
    assert read("npm.json", json.dumps(tree)) == [("kafkajs", "2.2.4"), ("node-rdkafka", "")]


def test_go_mod_names_modules_with_their_major_version():
    """Modules that are no clients do not count."""
    text = """module app
require (
	github.com/twmb/franz-go v1.17.0
	github.com/confluentinc/confluent-kafka-go/v2 v2.6.1
	github.com/x/y v1.0.0
)
require github.com/IBM/sarama v1.43.0
"""
    assert read("go.mod", text) == [("franz-go", "1.17.0"), ("confluent-kafka-go", "2.6.1"), ("sarama", "1.43.0")]


def test_a_pom_may_have_its_version_in_a_property():
    """The coordinates count in any order."""
    pom = """<project><properties><kafka.version>3.9.0</kafka.version></properties><dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>${kafka.version}</version>
    </dependency></dependencies></project>"""
    assert read("app/pom.xml", pom) == [("kafka-clients", "3.9.0")]


def test_a_jar_is_read_by_its_name_alone():
    """The file need not be here."""
    assert read("/opt/app/lib/kafka-clients-2.4.1.jar", "") == [("kafka-clients", "2.4.1")]
    assert read("connect-runtime-3.9.2.jar", "") == [("connect-runtime", "3.9.2")]


@pytest.mark.parametrize(
    ("jar", "version"),
    [
        ("flink-connector-kafka-3.4.0-1.20.jar", "3.4.0-1.20"),
        ("flink-sql-connector-kafka-3.4.0-1.20.jar", "3.4.0-1.20"),
        ("flink-connector-kafka_2.12-1.14.6.jar", "1.14.6"),
    ],
)
def test_the_connectors_of_flink_bring_a_java_client(jar: str, version: str):
    """The table has the client of each from its pom."""
    (found,) = declared(jar, lambda: "")
    assert (found.name, found.version) == ("flink-connector-kafka", version)
    assert found.library is not None
    assert found.library[0] == "kafka-clients"


@pytest.mark.parametrize(("name", "text"), [("Pipfile", ""), ("npm.json", "{"), ("npm.json", "[" * 100_000)])
def test_what_cannot_be_read_is_an_error_that_says_what_is_expected(name: str, text: str):
    """The error names the file."""
    with pytest.raises(ConfigError, match=name):
        read(name, text)


def test_another_interpreter_lists_its_packages():
    """Its environment counts, not that of this process."""
    assert fg.clients.installed(sys.executable) == tuple(
        fg.clients.declared.python_packages(
            {each.name: each.version for each in fg.clients.installed()}, sys.executable
        )
    )
    with pytest.raises(ConfigError, match="does not start: No such file"):
        fg.clients.installed("/nowhere/python")
    with pytest.raises(ConfigError, match="does not list its packages"):
        fg.clients.installed("/bin/false")


@pytest.mark.parametrize(
    ("replace", "version"),
    [
        ("replace github.com/Shopify/sarama => github.com/IBM/sarama v1.43.0", "1.43.0"),
        ("replace (\n\n\tgithub.com/Shopify/sarama v1.38.1 => github.com/IBM/sarama v1.43.0 // newer\n)", "1.43.0"),
        ("replace github.com/Shopify/sarama v1.30.0 => github.com/IBM/sarama v1.43.0", "1.38.1"),
        ("// replace github.com/Shopify/sarama => github.com/IBM/sarama v1.43.0", "1.38.1"),
        ("replace github.com/Shopify/sarama => ../sarama", ""),
        ("replace github.com/Shopify/sarama => example.org/fork/sarama v1.43.0", ""),
    ],
)
def test_what_a_module_is_replaced_by_counts(replace: str, version: str):
    """Go builds it in place of the required one; of a fork nothing was measured."""
    text = f"module x\n\nrequire github.com/Shopify/sarama v1.38.1 // indirect\n\n{replace}\n"
    assert [(each.name, each.version) for each in declared("go.mod", lambda: text)] == [("sarama", version)]


def a_pom(dependencies: str, around: str = "") -> str:
    """Return a pom with dependencies."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<project xmlns="http://example.org/POM/4.0.0">{around}{dependencies}</project>'


CLIENT = "<artifactId>kafka-clients</artifactId>"


@pytest.mark.parametrize(
    ("pom", "versions"),
    [
        (a_pom(f"<!-- <dependency>{CLIENT}<version>2.0.1</version></dependency> -->"), []),
        (
            a_pom(
                "<dependency><artifactId>spring-kafka</artifactId><version>3.1.0</version>"
                f"<exclusions><exclusion>{CLIENT}</exclusion></exclusions></dependency>"
            ),
            [],
        ),
        (a_pom(f"<dependency scope='x'>{CLIENT}<version>\n 3.9.0 <!-- lts --></version></dependency>"), ["3.9.0"]),
        (
            a_pom(
                f"<dependency>{CLIENT}</dependency>",
                f"<dependencyManagement><dependencies><dependency>{CLIENT}<version>3.9.0</version></dependency></dependencies></dependencyManagement>",
            ),
            ["3.9.0"],
        ),
        (
            a_pom(
                f"<dependency>{CLIENT}<version>${{a}}</version></dependency>",
                "<properties><a>${b}</a><b>3.9.0</b></properties>",
            ),
            ["3.9.0"],
        ),
        (
            a_pom(
                f"<dependency>{CLIENT}<version>${{a}}</version></dependency>", "<properties><a>${a}</a></properties>"
            ),
            [""],
        ),
        (a_pom(f"<dependency>{CLIENT}<version>${{parent}}</version></dependency>"), [""]),
    ],
    ids=["comment", "exclusion", "attribute", "managed", "property of a property", "property of itself", "parent"],
)
def test_a_pom_is_read_as_xml(pom: str, versions: list[str]):
    """What Maven would build counts; a version that stands elsewhere is not known."""
    assert read("pom.xml", pom) == [("kafka-clients", version) for version in versions]


@pytest.mark.parametrize("unit", ["<!--", "<dependency>", "<a>", "<a", "<properties>"])
def test_a_pom_that_never_ends_is_one_error(unit: str):
    """Reading takes time in proportion to the file: a search for each end took minutes of 300 kB."""
    with pytest.raises(ConfigError, match=r"pom\.xml.*not the XML of a pom"):
        read("pom.xml", unit * 80_000)


@pytest.mark.parametrize(
    "pom",
    [
        a_pom(
            "<dependency><version>${a}</version></dependency>" * 5_000,
            f"<properties><a>${{a}}</a>{''.join(f'<p{number}/>' for number in range(20_000))}</properties>",
        ),
        a_pom(f"{'<dependencyManagement>' * 20_000}{'</dependencyManagement>' * 20_000}"),
    ],
    ids=["properties", "depth"],
)
def test_a_large_pom_takes_time_in_proportion(pom: str):
    """Each of these took time in the square of its length, which is minutes."""
    assert read("pom.xml", pom) == []


def test_entities_of_a_pom_do_not_grow():
    """Each stands for ten of the one before."""
    laughs = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 12))
    with pytest.raises(ConfigError, match="not the XML of a pom"):
        read("pom.xml", f"<!DOCTYPE p [<!ENTITY l0 'ha'>{laughs}]><project>&l11;</project>")
