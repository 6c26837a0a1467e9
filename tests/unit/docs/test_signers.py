"""The functions for clouds on the page about connections, with stand-ins for the clouds' own libraries."""

import base64
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from doc_pages import ROOT, parsed

from featuregate.config.oauthbearer import Callback
from featuregate.credentials.tokens import TokenFetcher
from featuregate.testing import FakeCluster

EXPIRY = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)  # longer than any run of the tests


class Account:
    service_account_email = "orders@project.example"
    token: str | None = None
    expiry: datetime | None = None

    def refresh(self, _request: object) -> None:
        self.token, self.expiry = "access-token", EXPIRY.replace(tzinfo=None)


LIBRARIES: dict[str, dict[str, Any]] = {
    "aws_msk_iam_sasl_signer": {
        "MSKAuthTokenProvider": SimpleNamespace(
            generate_auth_token=lambda _region: ("token", int(EXPIRY.timestamp() * 1000))
        )
    },
    "azure": {},
    "azure.identity": {
        "DefaultAzureCredential": lambda: SimpleNamespace(
            get_token=lambda _scope: SimpleNamespace(token="token", expires_on=int(EXPIRY.timestamp()))
        )
    },
    "google": {},
    "google.auth": {"default": lambda scopes: (Account(), scopes and "project")},
    "google.auth.transport": {},
    "google.auth.transport.requests": {"Request": object},
}


@pytest.fixture
def signers(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    for name, content in LIBRARIES.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    with FakeCluster() as brokers:
        page = parsed(ROOT / "docs/how-to/connect.md", brokers.bootstrap)
        for example in page.examples():
            example.evaluate()
    return page.namespace


@pytest.mark.parametrize("cloud", ["msk", "azure", "google"])
def test_a_signer_gives_a_token_and_its_expiry_in_seconds(signers: dict[str, Any], cloud: str) -> None:
    """As confluent-kafka wants it: featuregate refuses milliseconds."""
    oauth_cb: Callable[[str], tuple[str, float]] = signers[cloud]["oauth_cb"]
    assert oauth_cb("")[1] == EXPIRY.timestamp()
    kept = TokenFetcher().fetch(Callback(function=oauth_cb, config=""), 5)
    assert kept.reuse_until < EXPIRY.timestamp()


def test_the_token_for_google_carries_the_access_token(signers: dict[str, Any]) -> None:
    """In its third part, without padding; the claims name the account and the expiry."""
    token, expiry = signers["google_token"]("")
    header, claims, access = (base64.urlsafe_b64decode(f"{part}==") for part in token.split("."))
    assert "=" not in token
    assert json.loads(header) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    assert json.loads(claims) | {"iat": 0} == {
        "iss": "Google",
        "sub": Account.service_account_email,
        "scope": "kafka",
        "iat": 0,
        "exp": expiry,
    }
    assert access == b"access-token"
