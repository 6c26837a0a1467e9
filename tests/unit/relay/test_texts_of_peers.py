"""Texts of brokers and files at every door of a relay: one line, and nothing that is obeyed."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from apps_in_process import call

from featuregate.testing import StaticFeatures, release_view
from featuregate_relay.access.certificates import Certificates
from featuregate_relay.app import PolledCluster, make_app
from featuregate_relay.refusals import RequestRefused

HOSTILE = ["\x1b[31mred", "two\nlines", "\r2026-01-01 ERROR forged", "bidi\u202eevil", "\x9b2J", "\u2028", "nul\0"]
every_text = pytest.mark.parametrize("text", HOSTILE)


def logged(caplog: pytest.LogCaptureFixture) -> str:
    (line,) = caplog.messages
    return line


@every_text
def test_why_a_certificate_cannot_be_renewed_is_one_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The text is that of the system, and may name what is in the file."""
    pair = trustme.CA().issue_cert("relay")
    certificate, key = tmp_path / "certificate", tmp_path / "key"
    pair.cert_chain_pems[0].write_to_path(str(certificate))
    pair.private_key_pem.write_to_path(str(key))
    certificates = Certificates(certificate, key)

    def failing() -> tuple[int, ...]:
        raise OSError(text)

    monkeypatch.setattr(certificates, "_changed_at", failing)
    certificates.renew()
    assert logged(caplog).isprintable()


@every_text
def test_a_refusal_is_one_line(text: str) -> None:
    for ofrep in (False, True):
        body = json.loads(bytes(RequestRefused(503, text).response(ofrep=ofrep).body))
        assert all(str(said).isprintable() for said in body.values())


@every_text
def test_why_there_is_no_view_yet_is_one_line(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the last poll holds what brokers said."""
    features = StaticFeatures()
    health = features.health() | {"last_error": text}
    monkeypatch.setattr(features, "health", lambda: health)
    status, _, body = asyncio.run(call(make_app({"default": PolledCluster(features)}), "/v1/clusters/default/view"))
    assert status == 503
    assert "no broker has answered yet" in json.loads(body)["error"]
    assert json.loads(body)["error"].isprintable()


@every_text
def test_a_host_among_the_metrics_is_one_line(text: str) -> None:
    """A broker without a node id is named by its address there."""
    view = release_view("4.2")
    view = replace(view, brokers=(replace(view.brokers[0], node_id=None, host=text),))
    _, _, body = asyncio.run(call(make_app({"default": PolledCluster(StaticFeatures(view))}), "/metrics"))
    lines = [line for line in body.decode().split("\n") if line.startswith("featuregate_relay_broker_answered{")]
    assert len(lines) == 1
    assert lines[0].isprintable()
