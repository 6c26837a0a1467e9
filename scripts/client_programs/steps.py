"""What the programs in Python share: run steps by name, and print one line of JSON for each. Runs on Python 3.7."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
import traceback

SETTINGS = json.loads(os.environ.get("CLIENT_SETTINGS", "{}"))
"""What an app sets beside the defaults of its client, such as ``{"api_version": "0.10.2"}``."""
USER, PASSWORD = "featuregate", "featuregate-secret"
TLS_BOOTSTRAP, TLS_CA = (os.environ.get(name, "") for name in ("TLS_BOOTSTRAP", "TLS_CA"))
KERBEROS = {name: os.environ.get(f"KERBEROS_{name.upper()}", "") for name in ("keytab", "principal")}
LIMIT = 20.0
"""Seconds that a step may take: clients retry for ever where a broker refuses what they send."""


def token():
    """Return a token without a signature (RFC 7519), which brokers take that have no validator."""
    now = int(time.time())  # noqa: TID251 - a token has times of the wall clock
    parts = ({"alg": "none"}, {"sub": USER, "iat": now - 60, "exp": now + 600})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, ""])


class AbsentError(Exception):
    """The release of the client does not have what the step is about."""


def run(steps):
    """Run the steps that the arguments name: PROGRAM BOOTSTRAP SASL_BOOTSTRAP RUN STEP..."""
    bootstrap, sasl, run_id, *names = sys.argv[1:]
    for name in names:
        mechanism = name[5:] if name.startswith("sasl-") else None
        step = steps["sasl" if mechanism else name.replace("-", "_")]
        address = TLS_BOOTSTRAP if name == "tls" else sasl if mechanism else bootstrap
        arguments = (address, run_id, f"{run_id}.{name}")
        if name == "steady":
            step(*arguments)  # it ends with the process
        print(json.dumps({"step": name, **_outcome(step, arguments, mechanism)}), flush=True)
    sys.stdout.flush()
    _leave()


def _outcome(step, arguments, mechanism):
    result = {}

    def body():
        try:
            step(*arguments, *([mechanism] if mechanism else []))
            result["fate"] = "works"
        except AbsentError as error:
            result.update(fate="absent", why=str(error))
        except BaseException as error:  # noqa: BLE001 - whatever a client raises is its fate
            text = str(error).strip() or traceback.format_exc().strip().splitlines()[-1]
            result.update(fate="fails", why=text)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(LIMIT)
    return result or {"fate": "fails", "why": f"no end within {LIMIT:.0f} s"}


def _leave():
    os._exit(0)  # threads of clients that retry for ever would keep the process
