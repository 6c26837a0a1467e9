"""Tokens where a file is the configuration: functions by name, and files with a token."""

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest

from featuregate.budgets import MOST_TOKEN_BYTES
from featuregate.config import Settings
from featuregate.config.from_files import ALLOWS
from featuregate.config.oauthbearer import Callback, TokenFile
from featuregate.config.secrets import MissingCredentials, in_words_of
from featuregate.credentials.tokens import TokenFetcher, fetch_token
from featuregate.errors import ConfigError
from featuregate_librdkafka.client_properties import client_properties

URL = "sasl.oauthbearer.token.endpoint.url"


def spelled(**config: str) -> dict[str, str]:
    """Return properties with OAUTHBEARER and these, which are spelled with underscores for dots."""
    properties = {"bootstrap.servers": "a", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    return properties | {name.replace("_", ".") if name != "oauth_cb" else name: text for name, text in config.items()}


def settings(**config: str) -> Settings:
    """Return settings with these properties."""
    return Settings.parse(spelled(**config))


def source(**config: str) -> Any:
    """Return where the tokens of these settings come from."""
    sasl = settings(**config).sasl
    assert sasl is not None
    return sasl.token


@pytest.fixture
def signers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module in the path, with functions that give tokens."""
    name = f"signers_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "class Cloud:\n    def token(config):\n        return f'of {config}', 4e9\n\nNUMBER = 7\n"
    )
    (tmp_path / f"{name}_broken.py").write_text("raise RuntimeError('hunter2')\n")
    (tmp_path / f"{name}_ended.py").write_text("raise SystemExit('hunter2')\n")
    (tmp_path / f"{name}_needs.py").write_text("import a_cloud_that_is_not_installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_a_file_names_a_function(signers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signer of a cloud works for the command line, the relay and the options of Spark."""
    monkeypatch.setenv(ALLOWS, signers)
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=a\nsecurity.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.config=eu-central-1\noauth_cb= {signers}:Cloud.token\n"
    )
    sasl = Settings.parse(path).sasl
    assert sasl is not None
    assert isinstance(sasl.token, Callback)
    assert TokenFetcher().fetch(sasl.token, 5).value.reveal() == "of eu-central-1"
    assert pickle.loads(pickle.dumps(sasl)) == sasl
    spark = {
        "kafka.bootstrap.servers": "a",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
    }
    spark |= {"kafka.sasl.oauthbearer.config": "eu-central-1", "kafka.oauth_cb": f"{signers}:Cloud.token"}
    assert Settings.parse(spark).sasl == sasl


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("NAME", "is not of the form MODULE:FUNCTION"),
        ("NAME.Cloud.token", "is not of the form MODULE:FUNCTION"),
        ("NAME:", "is not of the form MODULE:FUNCTION"),
        ("/etc/NAME.py:token", "is not of the form MODULE:FUNCTION"),
        ("NAME:nothing", "has no nothing"),
        ("NAME:NUMBER", "must be a function, not a int"),
        ("NAME_broken:token", "cannot be imported: RuntimeError"),
        ("NAME_ended:token", "cannot be imported: SystemExit"),
        ("NAME_none:token", "_none: put its folder into PYTHONPATH"),
        ("NAME_needs:token", "there is no module a_cloud_that_is_not_installed"),
    ],
)
def test_a_function_that_cannot_be_imported_is_an_error(signers: str, reference: str, problem: str) -> None:
    """The error says what is missing, and nothing of the module's own error."""
    with pytest.raises(ConfigError) as caught:
        source(oauth_cb=reference.replace("NAME", signers))
    assert caught.value.key == "oauth_cb"
    assert problem in caught.value.problem
    assert "hunter2" not in caught.value.problem
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize("url", ["file://PATH", "file:PATH", "FILE://localhost/PATH"])
def test_a_token_is_read_from_a_file_for_each_connection(tmp_path: Path, url: str) -> None:
    """Kubernetes mounts such files, and replaces them before the tokens expire."""
    path = tmp_path / "to ken"
    path.write_text(" first.token.\n")
    found = source(
        sasl_oauthbearer_token_endpoint_url=url.replace(
            "PATH", str(path).replace(" ", "%20").lstrip("/") if "localhost" in url else str(path).replace(" ", "%20")
        ),
        sasl_oauthbearer_extensions="a=b",
    )
    assert found == TokenFile(key=URL, path=str(path), extensions=(("a", "b"),))
    fetcher = TokenFetcher()
    first = asyncio.run(fetch_token(found, 5, fetcher))
    assert (first.value.reveal(), first.extensions) == ("first.token.", (("a", "b"),))
    path.write_text("second.token.")
    assert fetcher.fetch(found, 5).value.reveal() == "second.token."


def test_librdkafka_gets_the_token_of_a_file(tmp_path: Path) -> None:
    """The callback reads the file again whenever librdkafka asks."""
    path = tmp_path / "token"
    path.write_text("a.b.c")
    properties = client_properties(spelled(sasl_oauthbearer_token_endpoint_url=path.as_uri()))
    assert properties["oauth_cb"]("")[0] == "a.b.c"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" \n",
        b"a b",
        b"hunter2\nhunter2",
        b"\xff\xfe",
        b"a\0",
        pytest.param(b"a" * (MOST_TOKEN_BYTES + 1), id="too long"),
    ],
)
def test_a_file_without_a_token_is_an_error(tmp_path: Path, content: bytes) -> None:
    """A broker would refuse it, or take a part of it."""
    path = tmp_path / "token"
    path.write_bytes(content)
    found = source(sasl_oauthbearer_token_endpoint_url=path.as_uri())
    with pytest.raises(ConfigError, match="holds no token: it must have one word") as caught:
        TokenFetcher().fetch(found, 5)
    assert "hunter2" not in str(caught.value)
    path.unlink()
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        TokenFetcher().fetch(found, 5)


def test_advice_is_in_the_words_of_the_place_that_prints_it() -> None:
    """The argument of Python is no option of the command line, and some places have neither."""
    with pytest.raises(MissingCredentials) as caught:
        source()
    error = caught.value
    assert 'or set broker_list="bootstrap" if' in str(error)
    option = in_words_of(error, "--broker-list bootstrap")
    assert "or set --broker-list bootstrap if" in str(option)
    assert "broker_list" not in str(option)
    assert str(in_words_of(error, None)).endswith("oauth_cb=MODULE:FUNCTION, or sasl.oauthbearer.token.endpoint.url")
    assert str(pickle.loads(pickle.dumps(option))) == str(option)
    other = ConfigError("a", "b")
    assert in_words_of(other, "--broker-list bootstrap") is other
