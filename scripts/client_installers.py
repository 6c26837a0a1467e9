"""How each release of a client is installed into an environment of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from client_brokers import MECHANISMS

from featuregate.jars.maven import Download, fetched, verified_resolver

UV = Path(sys.executable).parent / "uv"
PROGRAMS = Path(__file__).parent / "client_programs"


@dataclass(frozen=True)
class Installed:
    """A release that can be run."""

    client: str
    version: str
    command: tuple[str, ...]
    how: str
    """How it was installed, for the row."""
    bundles: Mapping[str, str] = field(default_factory=dict)
    """The libraries that speak the protocol in it."""
    without: frozenset[str] = frozenset()
    """Steps that its program does not have, because no release of the client has what they are about."""
    environment: Mapping[str, str] | None = None
    beside: str = ""
    """What its ids have beside client and version, where it runs with other settings or another broker."""

    @property
    def name(self) -> str:
        """Client and release."""
        return f"{self.client}=={self.version}"

    @property
    def run_id(self) -> str:
        """The prefix of its topics and client ids."""
        return f"{self.client}-{self.version}{self.beside}"

    def with_settings(self, settings: Mapping[str, str]) -> Installed:
        """Return the same with settings beside the defaults of the client."""
        set_here = {"CLIENT_SETTINGS": json.dumps(settings)}
        return replace(self, environment={**(self.environment or os.environ), **set_here})

    @property
    def second_run_id(self) -> str:
        """The same of what is run once more."""
        return f"{self.run_id}-again"


@dataclass(frozen=True)
class Client:
    """A client, and how its releases are installed."""

    releases: tuple[str, ...]
    installer: Callable[[str, str, Path], Installed | None]


def install(client: str, version: str, folder: Path, *, to_run: bool = False) -> Installed | None:
    """Install a release, or say on stderr why it cannot be had.

    ``to_run`` builds a program also for a client whose rows name its library alone.
    """
    own = f"{client}-{version}".replace("/", "-")
    installer = go_module if to_run and client in MODULES else CLIENTS[client].installer
    try:
        found = installer(client, version, folder / own)
    except (subprocess.CalledProcessError, OSError) as error:
        said = getattr(error, "stderr", "") or str(error)
        print(f"{client} {version} cannot be had here: {said.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    if found is None:
        print(f"{client} {version} cannot be had here: no interpreter for it", file=sys.stderr)
    return found


def output(*command: object, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """Run a command and return what it prints."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=folder, env=environment)  # noqa: S603
    return done.stdout


def digest(*sources: Path) -> str:
    """Return a name for what is compiled from some files, so that a program that changed is compiled again."""
    return sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


# ---------------------------------------------------------------- Python


def python(minor: str) -> str | None:
    """Return an interpreter: on the path, or one of pyenv."""
    homes = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{minor}.*/bin/python"))
    return str(homes[-1]) if homes else shutil.which(f"python{minor}")


def environment_of(folder: Path, minor: str, *packages: str) -> tuple[str, ...] | None:
    """Create a virtual environment with packages; return the beginning of a command."""
    interpreter = python(minor)
    if interpreter is None:
        return None
    own = folder / "bin" / "python"
    done = folder / f"installed-{sha256(' '.join(packages).encode()).hexdigest()[:12]}"
    if not done.exists():
        output(UV, "venv", "--quiet", "--clear", "--python", interpreter, folder)
        output(UV, "pip", "install", "--quiet", "--python", own, *packages)
        done.touch()
    return (str(own),)


def gssapi() -> tuple[str, ...]:
    """Return the package that logs in with GSSAPI, where the machine has what it is compiled against."""
    return ("gssapi",) if shutil.which("krb5-config") else ()


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def confluent_kafka(client: str, version: str, folder: Path) -> Installed | None:
    """Install a wheel, which has its librdkafka in it."""
    minors = {(2, 0): "3.11", (1, 5): "3.8", (0, 0): "3.7"}
    minor = next(minor for least, minor in minors.items() if numbers(version) >= least)
    command = environment_of(folder, minor, "--only-binary=:all:", f"{client}=={version}")
    if command is None:
        return None
    # By the number: the text of 2.12.0 is "2".
    number = int(output(*command, "-c", "import confluent_kafka as c; print(c.libversion()[1])"))
    librdkafka = ".".join(str(number >> shift & 0xFF) for shift in (24, 16, 8))
    how = f"wheel of PyPI on Python {minor}"
    return Installed(client, version, (*command, str(PROGRAMS / "confluent.py")), how, {"librdkafka": librdkafka})


def kafka_python(client: str, version: str, folder: Path) -> Installed | None:
    """Install kafka-python with a library for zstd."""
    command = environment_of(folder, "3.11", f"{client}=={version}", "zstandard", *gssapi())
    if command is None:
        return None
    return Installed(client, version, (*command, str(PROGRAMS / "kafka_python.py")), "PyPI on Python 3.11")


def aiokafka(client: str, version: str, folder: Path) -> Installed | None:
    """Install aiokafka with the kafka-python of its time, which releases before 0.9 need."""
    old = numbers(version) < (0, 9)
    minor = "3.8" if old else "3.11"
    beside = ("kafka-python==2.0.2", "zstandard") if old else ("cramjam",)
    command = environment_of(folder, minor, f"{client}=={version}", *beside, *([] if old else gssapi()))
    if command is None:
        return None
    how = f"PyPI on Python {minor}" + (", with kafka-python 2.0.2" if old else "")
    lacks = frozenset({"kip848", "kip848-describe", "share"} | ({"admin", "sasl-GSSAPI"} if old else set()))
    return Installed(client, version, (*command, str(PROGRAMS / "aiokafka_steps.py")), how, without=lacks)


# ---------------------------------------------------------------- Java


JAXB = "javax.xml.bind:jaxb-api:2.3.1"
"""Releases before 1.0 log in with it. Java 11 and newer do not contain it."""


JACKSON = "com.fasterxml.jackson.core:jackson-databind:2.16.2"
"""Logins with OAUTHBEARER read tokens with it. It is not a dependency of the client."""


def kafka_clients(client: str, version: str, folder: Path) -> Installed | None:
    """Compile the program against a release of the Java client."""
    patches = (JAXB,) if numbers(version) < (1, 0) else ()
    patches += (JACKSON,) if numbers(version) >= (2, 0) else ()
    wanted = Download(f"{client} {version}", (f"org.apache.kafka:{client}:{version}",), lambda _: True, patches)
    jars = fetched(wanted, folder.with_name(f"{folder.name}-jars"))
    sources = [
        "Basic",
        *(["Newer"] if numbers(version) >= (1, 0) else []),
        *(["Shares"] if has_shares(version) else []),
    ]
    files = [PROGRAMS / "java" / f"{name}.java" for name in sources]
    classes = folder.with_name(f"{folder.name}-{digest(*files)}")
    if not classes.exists():
        begun = classes.with_name(f"{classes.name}-begun")
        output("javac", "-nowarn", "-cp", f"{jars}/*", "-d", begun, *files)
        begun.rename(classes)
    options = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.security.manager=allow")
    command = ("java", *options, "-cp", f"{jars}/*:{classes}", "Basic")
    lacks = set() if has_shares(version) else {"share"}
    lacks |= set() if "Newer" in sources else {"admin", "transactions", "kip848-describe"}
    lacks |= set() if numbers(version) >= (0, 10, 2) else {f"sasl-{mechanism}" for mechanism in MECHANISMS}
    return Installed(client, version, command, "Maven, on Java 17", without=frozenset(lacks))


def has_shares(version: str) -> bool:
    """Return whether a release of the Java client has share groups without early access."""
    return numbers(version) >= (4, 1)


def java_client_of(group: str, artifact: str, version: str, folder: Path) -> str:
    """Return which Java client a package of Maven depends on. Nothing is run: that client has its own row."""
    from jgo.maven import MavenContext, Model  # noqa: PLC0415 - an extra

    context = MavenContext(resolver=verified_resolver(), repo_cache=folder.with_name("poms"), timeout=60)
    try:
        dependencies = Model(context.project(group, artifact).at_version(version).pom(), context).deps.values()
    except RuntimeError as error:
        raise OSError(str(error)) from error
    (found,) = {str(each.version) for each in dependencies if each.artifactId == "kafka-clients"}
    return found


def pyspark(client: str, version: str, folder: Path) -> Installed:
    """Read the pom of the connector that Spark reads and writes Kafka with.

    Both versions of Scala are built from one pom, and the registry may have a release for one of them alone.
    """
    scala = {(4, 0): ("2.13",), (3, 2): ("2.12", "2.13"), (3, 0): ("2.12",), (0, 0): ("2.11",)}
    missing: OSError | None = None
    for binary in next(names for least, names in scala.items() if numbers(version) >= least):
        try:
            found = java_client_of("org.apache.spark", f"spark-sql-kafka-0-10_{binary}", version, folder)
        except OSError as error:
            missing = missing or error
        else:
            return Installed(client, version, (), "pom of its Kafka connector", {"kafka-clients": found})
    raise missing or OSError(f"no pom of {version}")


def flink(client: str, version: str, folder: Path) -> Installed:
    """Read the pom of Flink's connector, which had the version of Scala in its name up to 1.14."""
    suffix = "_2.12" if numbers(version) < (1, 15) else ""
    found = java_client_of("org.apache.flink", f"{client}{suffix}", version, folder)
    return Installed(client, version, (), "its pom", {"kafka-clients": found})


def connect(client: str, version: str, folder: Path) -> Installed:
    """Read the pom of Kafka Connect."""
    found = java_client_of("org.apache.kafka", client, version, folder)
    return Installed(client, version, (), "its pom", {"kafka-clients": found})


# ---------------------------------------------------------------- Node.js and Go


def npm_environment(folder: Path, package: str, *options: str) -> dict[str, str]:
    """Install a package with npm, and return an environment that has it.

    What an installation leaves behind that was ended is a package without some of its files.
    """
    modules, done = folder / "node_modules", folder / "installed"
    if not done.exists():
        shutil.rmtree(modules, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        output("npm", "install", "--silent", *options, "--prefix", folder, package)
        done.touch()
    return {**os.environ, "NODE_PATH": str(modules)}


def kafkajs(client: str, version: str, folder: Path) -> Installed:
    """Install kafkajs with npm."""
    found = npm_environment(folder, f"{client}@{version}")
    command = ("node", str(PROGRAMS / "node" / "kafkajs.js"))
    lacks = frozenset({"zstd", "kip848", "kip848-describe", "share", "sasl-GSSAPI"})
    return Installed(client, version, command, "npm, on Node.js 20", without=lacks, environment=found)


def kafka_node(client: str, version: str, folder: Path) -> Installed:
    """Install kafka-node with npm, without its optional codec."""
    found = npm_environment(folder, f"{client}@{version}", "--no-optional")
    command = ("node", str(PROGRAMS / "node" / "kafka_node.js"))
    lacks = {
        "zstd",
        "transactions",
        "kip848",
        "kip848-describe",
        "share",
        *(f"sasl-{mechanism}" for mechanism in MECHANISMS),
    }
    return Installed(client, version, command, "npm, on Node.js 20", without=frozenset(lacks), environment=found)


def node_binding(client: str, version: str, folder: Path) -> Installed:  # noqa: ARG001 - nothing is installed
    """Read which librdkafka a package of Node.js is built with. Nothing is run: librdkafka has its own rows."""
    found = output("npm", "view", f"{client}@{version}", "librdkafka").strip()
    if not found:
        raise OSError(f"npm has no {client} {version}, or it does not name its librdkafka")
    return Installed(client, version, (), "package.json of npm", {"librdkafka": found})


def go_binding(client: str, version: str, folder: Path) -> Installed:
    """Read which librdkafka comes with a release of confluent-kafka-go. Nothing is run, as above."""
    module = f"github.com/confluentinc/{client}{'/v2' if numbers(version) >= (2,) else ''}"
    folder.mkdir(parents=True, exist_ok=True)
    downloaded = json.loads(output("go", "mod", "download", "-json", f"{module}@v{version}", folder=folder))
    (header,) = Path(downloaded["Dir"]).glob("kafka/librdkafka*/rdkafka.h")
    hexadecimal = re.search(r"define RD_KAFKA_VERSION\s+0x(\w{2})(\w{2})(\w{2})", header.read_text())
    if hexadecimal is None:
        raise OSError(f"{header.name} of {client} {version} names no version")
    found = ".".join(str(int(part, 16)) for part in hexadecimal.groups())
    return Installed(client, version, (), "header in its Go module", {"librdkafka": found})


KERBEROS = "github.com/twmb/franz-go/pkg/sasl/kerberos"
MODULES = {
    "confluent-kafka-go": ("confluent", "github.com/confluentinc/confluent-kafka-go", ()),
    "franz-go": ("franz", "github.com/twmb/franz-go", ("github.com/twmb/franz-go/pkg/kmsg", KERBEROS)),
    "sarama": ("sarama", "github.com/IBM/sarama", ()),
    "kafka-go": ("segmentio", "github.com/segmentio/kafka-go", ("github.com/xdg-go/scram",)),
}
"""By client: the folder of its program, its module, and others that the program imports."""
SHOPIFY_UNTIL = (1, 38)
"""sarama was a module of Shopify's up to here."""


def go_module(client: str, version: str, folder: Path) -> Installed:
    """Build the program against a release of a Go module."""
    home, module, others = MODULES[client]
    named = "github.com/Shopify/sarama" if client == "sarama" and numbers(version)[:2] <= SHOPIFY_UNTIL else module
    sources = [PROGRAMS / "go" / "steps.go", *sorted((PROGRAMS / "go" / home).glob("*.go"))]
    folder = folder / digest(*sources)
    if not (folder / "client").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources:
            (folder / source.name).write_text(source.read_text().replace(module, named))
        (folder / "go.mod").write_text("module client\n")
        output("go", "get", f"{named}@v{version}", *others, folder=folder)
        output("go", "mod", "tidy", folder=folder)
        output("go", "build", "-o", "client", ".", folder=folder)
    lacks = {"kip848", "kip848-describe", "share", *WITHOUT_IN_GO.get(client, ())}
    return Installed(client, version, (str(folder / "client"),), "Go module proxy", without=frozenset(lacks))


WITHOUT_IN_GO = {
    "confluent-kafka-go": ("admin", "zstd", "transactions", "tls", "sasl-OAUTHBEARER", "sasl-GSSAPI"),
    "sarama": ("zstd", "transactions", "sasl-SCRAM-SHA-256", "sasl-SCRAM-SHA-512"),  # an app brings its own SCRAM
    "kafka-go": ("transactions", "sasl-OAUTHBEARER", "sasl-GSSAPI"),  # it has no such mechanism
}
"""What the programs leave out."""


# ---------------------------------------------------------------- which


CLIENTS = {
    "confluent-kafka": Client(
        (
            *("0.11.6", "1.0.1", "1.1.0", "1.2.0", "1.3.0", "1.4.2", "1.5.0", "1.6.1", "1.7.0", "1.8.2", "1.9.2"),
            *("2.0.2", "2.1.1", "2.2.0", "2.3.0", "2.4.0", "2.5.3", "2.6.0", "2.6.1", "2.7.0", "2.8.2", "2.9.0"),
            *("2.10.1", "2.11.1", "2.12.2", "2.13.2", "2.14.2", "2.15.1", "2.16.1"),
        ),
        confluent_kafka,
    ),
    "kafka-python": Client(
        ("1.4.7", "2.0.2", "2.0.6", "2.1.6", "2.2.21", "2.3.3", "3.0.0", "3.0.12"),
        kafka_python,
    ),
    "aiokafka": Client(("0.7.2", "0.8.1", "0.9.0", "0.10.0", "0.11.0", "0.12.0", "0.13.0", "0.14.0"), aiokafka),
    "kafka-clients": Client(
        (
            *("0.10.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3", "1.0.2", "1.1.1"),
            *("2.0.1", "2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2"),
            *("3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.0", "3.9.2"),
            *("4.0.0", "4.1.1", "4.2.0", "4.3.1", "4.4.0"),
        ),
        kafka_clients,
    ),
    "pyspark": Client(
        (
            *("2.4.0", "2.4.8", "3.0.0", "3.0.3", "3.1.1", "3.1.3", "3.2.0", "3.2.4", "3.3.0", "3.3.4"),
            *("3.4.0", "3.4.4", "3.5.0", "3.5.1", "3.5.4", "3.5.7", "3.5.8", "3.5.9"),
            *("4.0.0", "4.0.1", "4.0.2", "4.0.3", "4.0.4", "4.1.0", "4.1.1", "4.1.2", "4.1.3", "4.2.0"),
        ),
        pyspark,
    ),
    "flink-connector-kafka": Client(
        (
            *("1.13.6", "1.14.6", "1.15.4", "1.16.3", "1.17.2", "3.0.2-1.18", "3.1.0-1.18", "3.2.0-1.19"),
            *("3.3.0-1.20", "3.4.0-1.20", "4.0.0-2.0", "4.0.1-2.0"),
        ),
        flink,
    ),
    "connect-runtime": Client(
        (
            *("0.11.0.3", "1.0.2", "1.1.1", "2.0.1", "2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2"),
            *("2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2"),
            *("4.0.0", "4.1.1", "4.2.0", "4.3.1", "4.4.0"),
        ),
        connect,
    ),
    "node-rdkafka": Client(
        (
            *("2.8.1", "2.9.1", "2.10.1", "2.12.0", "2.13.0", "2.14.6", "2.15.0", "2.16.1", "2.17.0", "2.18.0"),
            *("3.0.1", "3.1.1", "3.2.1", "3.3.1", "3.4.1", "3.5.0", "3.6.1"),
        ),
        node_binding,
    ),
    "@confluentinc/kafka-javascript": Client(
        ("0.2.1", "1.0.0", "1.2.0", "1.3.2", "1.4.1", "1.5.0", "1.6.0", "1.7.0", "1.8.2", "1.9.1", "1.10.1"),
        node_binding,
    ),
    "confluent-kafka-go": Client(
        ("1.4.2", "1.5.2", "1.6.1", "1.7.0", "1.8.2", "1.9.1", "1.9.2", "2.0.2", "2.1.1", "2.3.0", "2.6.1", "2.11.1"),
        go_binding,
    ),
    "kafka-node": Client(("4.1.3", "5.0.0"), kafka_node),
    "kafkajs": Client(("1.12.0", "1.15.0", "1.16.0", "2.0.2", "2.1.0", "2.2.4"), kafkajs),
    "franz-go": Client(
        ("1.7.0", "1.14.0", "1.15.3", "1.16.1", "1.17.1", "1.18.1", "1.19.5", "1.20.7", "1.21.7", "1.22.3"),
        go_module,
    ),
    "sarama": Client(
        (
            *("1.27.2", "1.30.0", "1.33.0", "1.37.2", "1.38.1", "1.40.1", "1.41.3", "1.42.1"),
            *("1.43.3", "1.45.2", "1.46.3", "1.47.0", "1.48.2", "1.50.3", "1.60.2", "1.61.1"),
        ),
        go_module,
    ),
    "kafka-go": Client(("0.4.42", "0.4.47", "0.4.51"), go_module),
}
"""Each client with the releases to measure: the last of each minor release, and those before and after a change."""

REPRESENTATIVES = {
    "confluent-kafka": (
        *("0.11.6", "1.0.1", "1.5.0", "1.9.2", "2.0.2", "2.3.0", "2.6.0", "2.6.1"),
        *("2.10.1", "2.11.1", "2.12.2", "2.16.1"),
    ),
    "kafka-python": ("1.4.7", "2.0.2", "2.0.6", "2.1.6", "2.2.21", "2.3.3", "3.0.0", "3.0.12"),
    "aiokafka": ("0.7.2", "0.9.0", "0.12.0", "0.14.0"),
    "kafka-clients": ("0.10.0.1", "0.11.0.3", "2.0.1", "2.8.2", "3.9.0", "4.0.0", "4.4.0"),
    "kafka-node": ("5.0.0",),
    "kafkajs": ("1.15.0", "2.2.4"),
    "franz-go": ("1.7.0", "1.16.1", "1.22.3"),
    "sarama": ("1.27.2", "1.41.3", "1.61.1"),
    "kafka-go": ("0.4.42", "0.4.51"),
}
"""Releases of each client that stand for those between them: the first, the last, and those around a change."""
