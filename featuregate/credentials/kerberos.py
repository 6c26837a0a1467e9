"""Show by Kerberos who the client is, with the system's GSSAPI library (RFC 4121)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from featuregate.errors import ConfigError
from featuregate.printable import shown
from featuregate.version import how_to_install

if TYPE_CHECKING:
    from types import ModuleType

    from featuregate.config.sasl import Kerberos

_MISSING = f"GSSAPI needs the package gssapi, and the system's Kerberos: {how_to_install('kerberos')}"

_NO_STORES = (
    "the system's Kerberos takes neither a keytab nor a ticket cache from a program: leave it out, and run kinit"
)


class KerberosError(Exception):
    """A failure of Kerberos, in the words of its library, with advice."""


class KerberosLogin:
    """A security context between this client and one broker. Its calls may wait for the KDC."""

    def __init__(self, settings: Kerberos, host: str) -> None:
        """Find the client's credentials. Raises `ConfigError` without the library, and `KerberosError`."""
        self._gssapi = gssapi = _library()
        self._service = f"{settings.service}@{settings.host or host}"
        try:
            self._context: Any = gssapi.SecurityContext(
                name=gssapi.Name(self._service, gssapi.NameType.hostbased_service),
                creds=_credentials(gssapi, settings),
                mech=gssapi.MechType.kerberos,
                flags=gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity,
                usage="initiate",
            )
        except gssapi.exceptions.GSSError as error:
            raise KerberosError(_words(error, settings)) from error
        except NotImplementedError as error:
            raise KerberosError(_NO_STORES) from error
        self._settings = settings

    @property
    def complete(self) -> bool:
        """Whether the client and the broker know each other."""
        return bool(self._context.complete)

    def step(self, token: bytes | None) -> bytes:
        """Take the broker's token, None at first, and return the next one of the client."""
        try:
            reply = self._context.step(token)
        except self._gssapi.exceptions.GSSError as error:
            raise KerberosError(f"{_words(error, self._settings)} (the service is {self._service})") from error
        if self.complete and not self._context.actual_flags & self._gssapi.RequirementFlag.mutual_authentication:
            raise KerberosError("the broker did not show who it is")
        return reply or b""

    def unwrap(self, message: bytes) -> bytes:
        """Check and return a message of the broker."""
        try:
            return bytes(self._context.unwrap(message).message)
        except self._gssapi.exceptions.GSSError as error:
            raise KerberosError(_words(error, self._settings)) from error

    def wrap(self, message: bytes) -> bytes:
        """Sign a message for the broker."""
        return bytes(self._context.wrap(message, encrypt=False).message)


def _library() -> ModuleType:
    """Import an extra, which is built against the system's Kerberos: type checks run without it."""
    try:
        return import_module("gssapi")
    except (ImportError, OSError):  # OSError: the system has no Kerberos
        raise ConfigError("sasl.mechanism", _MISSING) from None


def _credentials(gssapi: ModuleType, settings: Kerberos) -> Any:
    """Return the credentials of a keytab or a ticket cache; None for the system's default."""
    name = gssapi.Name(settings.principal, gssapi.NameType.kerberos_principal) if settings.principal else None
    store = {}
    if settings.keytab:
        # Tickets that the library gets by the keytab stay in memory, for all connections of this process.
        cache = f"MEMORY:featuregate {settings.principal} {settings.keytab}"
        store = {"client_keytab": settings.keytab, "ccache": cache}
    elif settings.ticket_cache:
        store = {"ccache": settings.ticket_cache}
    if name is None and not store:
        return None
    return gssapi.Credentials(name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store or None)


def _words(error: Any, settings: Kerberos) -> str:
    """Return the library's reasons on one line, and what to do where the client has no ticket."""
    detailed = error.min_code != 0
    statuses = error.get_all_statuses(error.min_code if detailed else error.maj_code, is_maj=not detailed)
    reasons = "; ".join(str(reason) for reason in statuses)
    where = (
        "see sasl.kerberos.keytab and its principal" if settings.keytab else "run kinit, or set sasl.kerberos.keytab"
    )
    return f"Kerberos failed: {shown(reasons)}: {where}"
