"""A real Kerberos realm for tests: the KDC of MIT Kerberos on the loopback interface."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from waiting import eventually

NAME = "FEATUREGATE.TEST"
SEARCH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
TOOLS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
ATTEMPTS = 5

KDC = """\
[kdcdefaults]
    kdc_listen = ""
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {name} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
    }}
[logging]
    kdc = FILE:{folder}/kdc.log
"""
CLIENTS = """\
[libdefaults]
    default_realm = {name}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {name} = {{
        kdc = 127.0.0.1:{port}
    }}
"""


def why_no_kerberos() -> str | None:
    """Return what is missing: `make kerberos` installs all of it; None: nothing."""
    missing = [tool for tool in TOOLS if shutil.which(tool, path=SEARCH) is None]
    if find_spec("gssapi") is None:
        missing.append("the package gssapi")
    return f"no Kerberos: {', '.join(missing)} (see make kerberos)" if missing else None


@dataclass(frozen=True)
class Realm:
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.folder / 'tickets'}",
        }

    def keytab(self, principal: str) -> Path:
        path = self.folder / f"{principal.replace('/', '_')}.keytab"
        self.run("kadmin.local", "-r", NAME, "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-r", NAME, "-q", f"ktadd -k {path} {principal}")
        return path

    def run(self, tool: str, *arguments: str) -> None:
        found = shutil.which(tool, path=SEARCH)
        assert found is not None
        done = subprocess.run(
            [found, *arguments],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def realm(folder: Path) -> Iterator[Realm]:
    found = Realm(folder)
    with _started(found):
        yield found


@contextmanager
def _started(found: Realm) -> Iterator[None]:
    kdc = shutil.which("krb5kdc", path=SEARCH)
    assert kdc is not None
    for _ in range(ATTEMPTS):  # another process may take the port in between
        port = _free_port()
        for file, text in (("kdc.conf", KDC), ("krb5.conf", CLIENTS)):
            (found.folder / file).write_text(text.format(name=NAME, folder=found.folder, port=port))
        if not (found.folder / "stash").exists():
            found.run("kdb5_util", "create", "-s", "-P", "a master password", "-r", NAME)
        process = subprocess.Popen([kdc, "-n", "-r", NAME], env=os.environ | found.environment)
        try:
            eventually(lambda: process.poll() is not None or _answers(port), "the KDC")  # noqa: B023 - called at once
            if process.poll() is None:
                yield
                return
        finally:
            process.terminate()
            process.wait(60)
    raise AssertionError((found.folder / "kdc.log").read_text())


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 10):
        return True
    return False
