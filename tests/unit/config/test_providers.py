"""Placeholders of ``config.providers``."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from featuregate.config import Settings
from featuregate.config.from_files import ALLOWS
from featuregate.errors import ConfigError

PACKAGE = "org.apache.kafka.common.config.provider"
CLASSES = {"env": "EnvVarConfigProvider", "file": "FileConfigProvider", "dir": "DirectoryConfigProvider"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def providers(*names: str, **parameters: str) -> dict[str, str]:
    """Return the properties of Kafka's providers of these names, each with these parameters."""
    found = {"config.providers": ",".join(names)}
    for name in names:
        found[f"config.providers.{name}.class"] = f"{PACKAGE}.{CLASSES[name]}"
        found |= {f"config.providers.{name}.param.{key.replace('_', '.')}": text for key, text in parameters.items()}
    return found


def password(text: str, more: dict[str, str]) -> str:
    """Return the password of settings whose sasl.password is this text."""
    config = {"bootstrap.servers": "a", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    config |= {"sasl.username": "u", "sasl.password": text}
    sasl = Settings.parse(config | more).sasl
    assert sasl is not None
    assert sasl.password is not None
    return sasl.password.reveal()


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a properties file and a folder of files; the environment has a password, too."""
    (tmp_path / "s.properties").write_text("pw=of the file\nempty=\numlaut=\u00fc\n", "utf-8")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "pw").write_text("of the folder")
    (tmp_path / "dir" / "latin").write_bytes(b"\xfc")
    monkeypatch.setenv("KPW", r"of\the$1")
    monkeypatch.setenv("NESTED", "${env:KPW}")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:KPW}", r"of\the$1"),
        ("${env::KPW}", r"of\the$1"),
        ("a${env:KPW}b$${env:KPW}", r"aof\the$1b$of\the$1"),
        ("${env:NESTED}", "${env:KPW}"),
        ("${file:FOLDER/s.properties:pw}", "of the file"),
        ("${file:FOLDER/dir/../s.properties:umlaut}", "\u00fc"),
        ("x${file:FOLDER/s.properties:empty}", "x"),
        ("${dir:FOLDER/dir:pw}", "of the folder"),
        ("$ConnectionString {a} $(b) ${", "$ConnectionString {a} $(b) ${"),
    ],
)
def test_a_placeholder_has_the_value_that_java_gives_it(secrets: Path, text: str, value: str) -> None:
    """Each is replaced once, anywhere in a text; the values are those of Kafka's ConfigTransformer."""
    assert password(text.replace("FOLDER", str(secrets)), providers("env", "file", "dir")) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${env:NOPE}", "holds ${env:NOPE}, which has no value: the environment of this process has no such variable"),
        ("${env:KPW:hunter2 1}", "holds ${env:...}, which has no value: the environment has no paths, and Kafka's"),
        ("${ENV:KPW}", "holds a placeholder of a provider that config.providers does not configure"),
        ("${KPW}", "holds a placeholder as ${NAME}, which Kafka's clients send as it is"),
        ("${env:KPW", "has a placeholder of the provider env without its closing brace"),
        ("${file:FOLDER/s.properties:none}", "which has no value: the file has no such property"),
        ("${file:none.properties:pw}", "none.properties' cannot be read: No such file"),
        ("${file:pw}", "it names no path: write ${file:FILE:KEY}"),
        ("${dir:FOLDER/dir:none}", "the folder has no such file"),
        ("${dir:FOLDER/dir:../s.properties}", "the folder has no such file"),
        ("${dir:FOLDER/dir:}", "the folder has no such file"),
        ("${dir:FOLDER/none:pw}", "the folder has no such file"),
        ("${dir:FOLDER/dir:latin}", "the file is not in UTF-8"),
        ("${dir:pw}", "it names no path: write ${dir:FOLDER:KEY}"),
    ],
)
def test_a_placeholder_without_a_value_is_an_error(secrets: Path, text: str, problem: str) -> None:
    """Java sends the placeholder itself in most of these cases."""
    with pytest.raises(ConfigError) as caught:
        password(text.replace("FOLDER", str(secrets)), providers("env", "file", "dir"))
    assert problem in caught.value.problem
    assert "hunter2" not in caught.value.problem


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize(("pattern", "value"), [("KPW", True), ("K.*|X", True), ("PW", False), ("^X", False)])
def test_an_allowlist_matches_whole_names(pattern: str, value: bool) -> None:  # noqa: FBT001 - of the table
    """EnvVarConfigProvider matches the whole name of a variable."""
    more = providers("env", allowlist_pattern=pattern)
    if value:
        assert password("${env:KPW}", more) == r"of\the$1"
    else:
        with pytest.raises(ConfigError, match=r"allowlist\.pattern does not allow it"):
            password("${env:KPW}", more)


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("pattern", ["[", "(K+)+W", "K*P*W*.*", "|".join([".*.*.*x"] * 30000)], ids=len)
def test_an_allowlist_that_does_not_compile_is_an_error(pattern: str) -> None:
    """Java refuses the first, too; the others could take forever."""
    with pytest.raises(ConfigError, match=r"allowlist\.pattern is not a regular expression"):
        password("${env:KPW}", providers("env", allowlist_pattern=pattern))


@pytest.mark.parametrize(
    ("allowed", "text", "value"),
    [
        ("/etc,FOLDER", "${file:FOLDER/s.properties:pw}", "of the file"),
        ("FOLDER/", "${file:FOLDER/dir/../s.properties:pw}", "of the file"),
        ("FOLDER/dir", "${dir:FOLDER/dir:pw}", "of the folder"),
        ("FOLDER/dir", "${file:FOLDER/dir/../s.properties:pw}", None),
        ("FOLDER/di", "${dir:FOLDER/dir:pw}", None),
        ("/etc", "${file:FOLDER/s.properties:pw}", None),
        ("/etc", "${file:s.properties:pw}", None),
    ],
)
def test_only_allowed_paths_are_read(secrets: Path, allowed: str, text: str, value: str | None) -> None:
    """A path counts without its dots, and folders by whole names."""
    more = providers("file", "dir", allowed_paths=allowed.replace("FOLDER", str(secrets)))
    text = text.replace("FOLDER", str(secrets))
    if value is not None:
        assert password(text, more) == value
    else:
        with pytest.raises(ConfigError, match=r"allowed\.paths does not allow it"):
            password(text, more)


@pytest.mark.parametrize("part", ["${", "${a:", "${a:b:", "${env:", "$", "}", "${a:b", "${env:a:b"])
def test_a_value_is_read_in_one_pass(part: str) -> None:
    """The expression of Java's ConfigTransformer takes the fourth power of such texts: hours for this one."""
    with pytest.raises(ConfigError) if part.startswith("${env") else nullcontext():
        password(part * (100_000 // len(part)), providers("env"))


def test_a_provider_of_another_class_is_refused_where_a_property_needs_it() -> None:
    """A file may use other providers for properties that are not read here."""
    more = {"config.providers": "vault", "config.providers.vault.class": "com.example.Vault"}
    assert password("p", more | {"ssl.unknown": "${vault:a:b}"}) == "p"
    with pytest.raises(ConfigError, match=r"config\.providers\.vault\.class is a Java class that is not run here"):
        password("${vault:a:b}", more)


@pytest.mark.usefixtures("secrets")
def test_every_door_replaces_placeholders(tmp_path: Path) -> None:
    """Files, dicts and the options of Spark, any property, and names with blanks around."""
    jaas = f'{PLAIN} username="u" password="${{env:KPW}}";'
    config = providers("env") | {"bootstrap.servers": "${env:HOSTS_OF_KAFKA}:1,b", "client.id": "${env:KPW}"}
    config |= {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    config |= {"config.providers": "none, env "}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOSTS_OF_KAFKA", "a")
        patch.setenv(ALLOWS, "env:KPW, env:HOSTS_*")
        settings = Settings.parse(config)
        assert Settings.parse({f"kafka.{name}": text for name, text in config.items()}) == settings
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{name}={text}\n" for name, text in config.items()))
        assert Settings.parse(path) == settings
    assert settings.client_id == r"of\the$1"
    assert str(settings.bootstrap[0]) == "a:1"
    with pytest.raises(ConfigError, match="holds a placeholder"):
        Settings.parse("${env:HOSTS_OF_KAFKA}:9092")
