"""Invariant 19: a file runs nothing, and reaches no variable and no other file, unless the operator allows it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from featuregate import Discoverer
from featuregate.cli import main
from featuregate.config import Settings
from featuregate.config.from_files import ALLOWS
from featuregate.config.oauthbearer import Callback, TokenFile
from featuregate.config.properties_file import read_properties
from featuregate.errors import ConfigError
from featuregate.testing import FakeCluster
from featuregate_fleet.runs.internal_topics import java_properties
from featuregate_librdkafka.client_properties import client_properties
from featuregate_relay.config.relay import ConfigMistakes, read_config

PROVIDER = "org.apache.kafka.common.config.provider"
URL = "sasl.oauthbearer.token.endpoint.url"
TOKENS = {"sasl.mechanism": "OAUTHBEARER"}
PROVIDERS = {
    "config.providers": "env,file,dir",
    "config.providers.env.class": f"{PROVIDER}.EnvVarConfigProvider",
    "config.providers.file.class": f"{PROVIDER}.FileConfigProvider",
    "config.providers.dir.class": f"{PROVIDER}.DirectoryConfigProvider",
}
PLAIN = {"sasl.mechanism": "PLAIN", "sasl.username": "u", **PROVIDERS}
REACHING: Mapping[str, tuple[dict[str, str], str]] = {
    "code": (TOKENS | {"oauth_cb": "MARKER:token"}, "MARKER"),
    "variable": (PLAIN | {"sasl.password": "${env:HUNTER}"}, "env:HUN*"),
    "file": (PLAIN | {"sasl.password": "${file:FOLDER/s.properties:pw}"}, "FOLDER"),
    "folder": (PLAIN | {"sasl.password": "${dir:FOLDER/dir:pw}"}, "/none,FOLDER/dir"),
    "token": (TOKENS | {URL: "file://FOLDER/dir/pw"}, "FOLDER"),
    "token by a variable": (TOKENS | PROVIDERS | {URL: "file://FOLDER/dir/${env:HUNTER}"}, "env:HUNTER,FOLDER"),
}
"""Properties that reach something, and what the operator writes to allow it."""


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that fills in the places; the module marks that it was imported."""
    marker = f"marker_{tmp_path.name}"
    (tmp_path / f"{marker}.py").write_text(
        f"import os, pathlib\nfrom os import system\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
        "def token(config):\n    return 'a.b.c', 4e9\n"
    )
    (tmp_path / "s.properties").write_text("pw=hunter2\n")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "pw").write_text("hunter2")
    (tmp_path / "dir" / "link").symlink_to(tmp_path / "s.properties")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HUNTER", "pw")
    return lambda text: text.replace("MARKER", marker).replace("FOLDER", str(tmp_path))


def properties(name: str, filled: Callable[[str], str], servers: str = "a") -> dict[str, str]:
    """Return the properties of one row."""
    config = {"bootstrap.servers": servers, "security.protocol": "SASL_PLAINTEXT"} | REACHING[name][0]
    return {key: filled(text) for key, text in config.items()}


def written(folder: Path, config: Mapping[str, str]) -> Path:
    """Write a file of properties."""
    file = folder / "client.properties"
    file.write_text("".join(f"{key}={text}\n" for key, text in config.items()))
    return file


@pytest.mark.parametrize("name", REACHING)
def test_invariant_19_a_file_reaches_only_what_the_operator_allows(
    name: str, filled: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app's dict is code, and needs no leave."""
    config = properties(name, filled)
    file = written(tmp_path, config)
    toml = "".join(f'"{key}" = {json.dumps(text)}\n' for key, text in config.items())
    (tmp_path / "relay.toml").write_text(f"[clusters.a.properties]\n{toml}")
    for allowed in ("", "other,env:HUNT,env:X*,/etc", f"{tmp_path}/di,{tmp_path}/s.properties/x"):
        monkeypatch.setenv(ALLOWS, allowed)
        for door in (
            lambda: Settings.parse(file),
            lambda: Settings.parse({**read_properties(file)}),
            lambda: Settings.parse({f"kafka.{key}": text for key, text in read_properties(file).items()}),
            lambda: Discoverer(file),
            lambda: read_config(tmp_path / "relay.toml").discoverers(),
        ):
            with pytest.raises((ConfigError, ConfigMistakes), match=f"this machine's operator allows it.*{ALLOWS}"):
                door()
    assert not (tmp_path / "ran").exists()
    monkeypatch.setenv(ALLOWS, filled(REACHING[name][1]))
    of_file = Settings.parse(file).sasl
    assert of_file is not None
    monkeypatch.delenv(ALLOWS)
    assert Settings.parse(config).sasl == of_file
    if of_file.password is not None:
        assert of_file.password.reveal() in {"hunter2", "pw"}
    else:
        assert isinstance(of_file.token, Callback | TokenFile)


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("name", REACHING)
def test_invariant_19_doctor_and_check_config_run_nothing(
    name: str,
    *,
    allowed: bool,
    filled: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They look at a file that somebody has sent; the broker that it names hears no secret."""
    monkeypatch.setenv(ALLOWS, filled(REACHING[name][1]) if allowed else "")
    with FakeCluster(passwords={"u": "hunter2"}) as cluster:
        file = written(tmp_path, properties(name, filled, cluster.bootstrap))
        assert main(["doctor", f"--command-config={file}", "--output=json", "--timeout=5"]) == (2 if allowed else 1)
        codes = [each["code"] for each in json.loads(capsys.readouterr().out)["findings"]]
        assert ("not-run" if allowed else "configuration") in codes
    assert main(["serve", "--check-config", f"--command-config={file}"]) == (0 if allowed else 64)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("reference", ["os:system", "subprocess:getoutput", "os.path:join", "builtins:print"])
def test_no_text_names_a_function_of_the_standard_library(
    reference: str, filled: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's list does not change that, and neither does a module that imports the function."""
    monkeypatch.setenv(ALLOWS, filled("os,subprocess,builtins,MARKER"))
    config = {"bootstrap.servers": "a", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    for text in (reference, filled("MARKER:os.system"), filled("MARKER:system")):
        for given in (written(tmp_path, config | {"oauth_cb": text}), config | {"oauth_cb": text}):
            with pytest.raises(ConfigError, match="of Python's standard library"):
                Settings.parse(given)


def test_a_link_counts_as_the_file_that_it_leads_to(
    filled: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link in an allowed folder opens no other folder."""
    monkeypatch.setenv(ALLOWS, filled("FOLDER/dir"))
    config = properties("file", filled) | {"sasl.password": filled("${file:FOLDER/dir/link:pw}")}
    with pytest.raises(ConfigError, match="names another file"):
        Settings.parse(written(tmp_path, config))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required user.provider.url=x;"),
        ("sasl.login.callback.handler.class", "com.evil.Handler"),
        ("interceptor.classes", "org.apache.kafka.Fine, com.evil.Interceptor"),
        ("metric.reporters", "com.evil.Reporter"),
        ("ssl.engine.factory.class", "com.evil.Factory"),
        ("security.providers", "com.evil.Providers"),
    ],
)
def test_java_loads_only_classes_that_a_file_may_name(
    name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's own, and those of packages that the operator allows."""
    file = written(tmp_path, {"bootstrap.servers": "a", name: text})
    with pytest.raises(ConfigError, match="this machine's operator allows it"):
        java_properties(read_properties(file))
    monkeypatch.setenv(ALLOWS, "com.evil,com.sun.security")
    assert java_properties(read_properties(file))[name] == text


@pytest.mark.parametrize(
    ("name", "text"), [("principal", "a; id"), ("principal", "$(id)"), ("keytab", '/a"`id`"'), ("principal", "-x")]
)
def test_librdkafka_runs_kinit_only_with_plain_words(name: str, text: str) -> None:
    """librdkafka puts both into the command line of a shell."""
    config = {"bootstrap.servers": "a", "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    config |= {"sasl.kerberos.keytab": "/etc/k.keytab", f"sasl.kerberos.{name}": text}
    with pytest.raises(ConfigError, match="characters that a shell obeys"):
        client_properties(config)
