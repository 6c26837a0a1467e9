"""One attempt to deliver a message (Standard Webhooks 1.0): signed, without redirects, in limited time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

import requests
from standardwebhooks import Webhook

from featuregate_relay.webhooks.networks import GuardedAdapter, Network

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from featuregate_relay.webhooks.messages import Message

_SECONDS: Final = 20.0
_SUCCESS: Final = range(200, 300)
_GONE: Final = 410
_LONGEST_RETRY_AFTER: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """How an attempt ended."""

    delivered: bool
    problem: str = ""
    gone: bool = False
    """The receiver wants no further message (410)."""
    retry_after: float = 0.0
    """Seconds that the receiver wants to be left alone."""


class Endpoint:
    """Where messages go.

    Parameters
    ----------
    secrets
        Each signs every message: two while one is replaced.
    listed
        Networks whose addresses are allowed although they are private.
    ca
        A file of certificates that the endpoint's is checked with; by default well-known ones.
    """

    def __init__(
        self,
        name: str,
        url: str,
        secrets: Sequence[str],
        listed: Sequence[Network] = (),
        *,
        ca: Path | None = None,
    ) -> None:
        self.name = name
        self._url = url
        self._signers = [Webhook(secret) for secret in secrets]
        self._listed = listed
        self._verify = True if ca is None else str(ca)

    def deliver(self, message: Message, now: datetime) -> Attempt:
        """Send a message; blocks. What the receiver answers in its body is not read."""
        adapter = GuardedAdapter(self._listed)
        try:
            with self._session(adapter) as session, adapter.limited(_SECONDS):
                return self._post(session, message, now)
        except requests.RequestException as error:
            problem = f"it did not answer within {_SECONDS:g} s" if adapter.aborted else _cause(error)
            return Attempt(delivered=False, problem=problem)
        except OSError as error:  # of the file of certificates, which requests does not wrap
            return Attempt(delivered=False, problem=str(error))

    def _session(self, adapter: GuardedAdapter) -> requests.Session:
        session = requests.Session()
        session.verify = self._verify
        session.trust_env = False  # a proxy would connect to any address
        for scheme in ("http://", "https://"):
            session.mount(scheme, adapter)
        return session

    def _post(self, session: requests.Session, message: Message, now: datetime) -> Attempt:
        signatures = (signer.sign(message.ident, now, message.body) for signer in self._signers)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "featuregate",
            "webhook-id": message.ident,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(signatures),
        }
        with session.post(
            self._url,
            data=message.body.encode(),
            headers=headers,
            timeout=_SECONDS,
            allow_redirects=False,
            stream=True,
        ) as response:
            if response.status_code in _SUCCESS:
                return Attempt(delivered=True)
            return Attempt(
                delivered=False,
                problem=f"it answered {response.status_code}",
                gone=response.status_code == _GONE,
                retry_after=_seconds(response.headers.get("Retry-After"), now),
            )


def _seconds(retry_after: str | None, now: datetime) -> float:
    """Read ``Retry-After`` (RFC 9110, 10.2.3); what is no such text asks for nothing."""
    if retry_after is None:
        return 0.0
    try:
        wanted = (
            float(retry_after)
            if retry_after.isdecimal()
            else (parsedate_to_datetime(retry_after).replace(tzinfo=UTC) - now).total_seconds()
        )
    except (ValueError, OverflowError):  # of a year with many digits
        return 0.0
    return min(max(wanted, 0.0), _LONGEST_RETRY_AFTER)


def _cause(error: requests.RequestException) -> str:
    """Return the innermost text, without the URL, which may hold a secret."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return str(reason).rpartition(": ")[2] if reason is not None else type(error).__name__
