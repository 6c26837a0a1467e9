"""Findings about the configuration: of this client, with its credentials and who gets them, and of brokers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final

from featuregate.cli.diagnosis import DoctorFinding, error_finding, note_finding, warning_finding
from featuregate.config.allowed_hosts import one_spelling
from featuregate.config.keys import SPELLINGS, misspelt, plain_name
from featuregate.config.no_effect import weaker
from featuregate.config.secrets import in_words_of
from featuregate.gating.decisions import Reason, evaluate
from featuregate.printable import some
from featuregate.requirements import ConfigHas, conditions_in, configs_in, presets

if TYPE_CHECKING:
    from featuregate.config import Address, Settings
    from featuregate.errors import ConfigError
    from featuregate.requirements.presets import Preset
    from featuregate.view.cluster_view import View


_warning: Final = partial(warning_finding, where="configuration")


def configuration_findings(properties: Mapping[str, str], settings: Settings) -> Iterator[DoctorFinding]:
    """Yield the properties without effect, and the checks that are turned off."""
    others = misspelt(map(plain_name, properties))
    for name, meant in others.items():
        yield _warning(
            code="misspelt-property",
            problem=f"{name} has no effect.",
            evidence=f"no property has this name; {meant} has nearly the same",
            advice=f"write {meant}",
        )
    without = {name: text for name, text in properties.items() if plain_name(name) not in {*SPELLINGS, *others}}
    for name, meaning in weaker(without, settings.protocol).items():
        yield _warning(
            code="no-effect",
            problem=f"{name} has no effect.",
            evidence=f"{name} {meaning}",
            advice="remove it, or keep in mind that other clients obey it",
        )
    used = {"ssl.": settings.protocol.endswith("SSL"), "sasl.": settings.protocol.startswith("SASL_")}
    for prefix, has_effect in used.items():
        names = [name for name in properties if plain_name(name).replace("_", ".").startswith(prefix)]
        if names and not has_effect:
            yield _warning(
                code=f"{prefix.rstrip('.')}-ignored",
                problem=f"Settings of {prefix.rstrip('.').upper()} have no effect.",
                evidence=f"security.protocol is {settings.protocol}; set are {some(sorted(names))}",
                advice="set security.protocol to the protocol of the listener, or remove these properties",
            )
    if settings.trust_shared_addresses:
        yield note_finding(
            code="shared-addresses-trusted",
            where="configuration",
            problem="An answer counts for every node that the cluster lists at its address.",
            evidence="featuregate.trust.shared.addresses is true",
            advice="keep it only where whatever listens there answers for all of them; a balancer does not",
        )
    if settings.tls is not None and not settings.tls.verify:
        yield _unsafe(
            "certificate-unchecked", "Certificates are not checked, so an attacker in between can read and answer."
        )
    elif settings.tls is not None and not settings.tls.check_hostname:
        yield _unsafe("host-unchecked", "Host names in certificates are not checked: any trusted certificate passes.")


def invalid_configuration(error: ConfigError) -> DoctorFinding:
    """Return the finding for a property that is not valid."""
    error = in_words_of(error, "--broker-list bootstrap")
    return error_finding(
        code="configuration",
        where="configuration",
        problem=f"{error.key} is not valid.",
        evidence=error.problem,
        advice="the page Configuration of the documentation lists the properties and their values",
    )


def not_run_finding(names: Sequence[str]) -> DoctorFinding:
    """Return the finding for properties of the file that name code, variables of the environment, or other files."""
    return _warning(
        code="not-run",
        problem="doctor runs no code and reads no variable or file that a configuration names, so it did not log in.",
        evidence=f"set are {', '.join(names)}",
        advice="run 'featuregate describe' with the same options, if you trust the file: it logs in",
    )


def _unsafe(code: str, problem: str) -> DoctorFinding:
    return _warning(
        code=code,
        problem=problem,
        evidence="enable.ssl.certificate.verification, ssl.endpoint.identification.algorithm",
        advice="set ssl.ca.location to the authority that signed the certificates, and connect by a name in them",
    )


_READABLE: Final = {"PLAIN": "the password", "OAUTHBEARER": "the token"}
"""What a client sends as it is with these mechanisms; the others prove that they know it."""
_SHOWN: Final = 5


def credential_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield a warning where each broker, and everybody on the way to it, can read the credentials."""
    if secret := _readable(settings):
        yield _warning(
            code="credentials-in-clear",
            problem=f"Everybody on the way to a broker can read {secret}.",
            evidence=f"security.protocol is SASL_PLAINTEXT, sasl.mechanism is {_mechanism(settings)}",
            advice="use a SASL_SSL listener, or SCRAM, which does not send the password",
        )


def named_host_findings(settings: Settings, hosts: Iterable[str]) -> Iterator[DoctorFinding]:
    """Yield a warning where the cluster names hosts elsewhere, which get readable credentials without a check."""
    secret = _readable(settings)
    found = outside(hosts, settings.bootstrap)
    if secret and found and settings.allowed_hosts is None and settings.broker_list == "cluster":
        yield warning_finding(
            code="credentials-to-named-hosts",
            problem=f"The client sends {secret} to hosts outside the domains of the bootstrap list.",
            evidence="over SASL_PLAINTEXT, any host that answers in place of a broker names them: "
            f"{some(found, _SHOWN)}",
            advice="use a SASL_SSL listener; or set featuregate.allowed.hosts to the hosts that may get it",
        )


def outside(hosts: Iterable[str], bootstrap: Iterable[Address]) -> list[str]:
    """Return the hosts that share neither a domain nor a network (/24, /64) with an address of the bootstrap list."""
    near = {domain for address in bootstrap for domain in (one_spelling(address.host), _domain(address.host))}
    return sorted({host for host in hosts if near.isdisjoint(_domains(host))})


def _domains(host: str) -> set[str]:
    labels = one_spelling(host).split(".")
    return {_domain(host), *(".".join(labels[at:]) for at in range(len(labels)))}


def _domain(host: str) -> str:
    """Return the network of an address, or the domain above a name; not a top-level domain, but the name itself."""
    name = one_spelling(host)
    try:
        address = ip_address("127.0.0.1" if name == "localhost" else name.partition("%")[0])
    except ValueError:
        parent = name.partition(".")[2]
        return parent if "." in parent or not parent else name
    return str(ip_network(f"{address}/{24 if address.version == 4 else 64}", strict=False))  # noqa: PLR2004


def _readable(settings: Settings) -> str | None:
    return _READABLE.get(_mechanism(settings)) if settings.protocol == "SASL_PLAINTEXT" else None


def _mechanism(settings: Settings) -> str:
    return settings.sasl.mechanism if settings.sasl else ""


_REASONS: Final = 3
_DENIED: Final = "CLUSTER_AUTHORIZATION_FAILED"
CONFIGS: Final = frozenset(name for preset in presets.all() for name in configs_in(preset))
"""The configs on which presets depend."""


def config_findings(view: View) -> Iterator[DoctorFinding]:
    """Yield the presets of which brokers have all features and APIs, and that a config switches off, or may."""
    for preset in presets.all():
        conditions = {str(part): part for part in conditions_in(preset) if isinstance(part, ConfigHas)}
        reasons = [reason for reason in evaluate(view, preset).reasons if reason.verdict != "open"]
        if reasons and all(reason.condition in conditions for reason in reasons):
            worst = min(reasons, key=lambda reason: reason.verdict != "closed")
            yield _config_finding(
                preset, conditions[worst.condition], [one for one in reasons if one.verdict == worst.verdict]
            )


def _config_finding(preset: Preset, condition: ConfigHas, reasons: Sequence[Reason]) -> DoctorFinding:
    where = ", ".join(sorted({reason.address or "cluster" for reason in reasons}))
    evidence = "; ".join(reason.text for reason in reasons[:_REASONS])
    denied = any(_DENIED in reason.text for reason in reasons)
    if reasons[0].verdict == "closed":
        return warning_finding(
            code="config-closes",
            where=where,
            problem=f"A config of brokers switches {preset.name} off, though they have its features and APIs.",
            evidence=evidence,
            advice=f"add {condition.value} to {condition.name} on each broker and restart it, or keep clients from it",
        )
    return note_finding(
        code="config-unknown",
        where=where,
        problem=f"It is not known whether a config of brokers switches {preset.name} off.",
        evidence=evidence,
        advice=(
            "grant this client DESCRIBE_CONFIGS on the cluster" if denied else "check why the broker does not tell it"
        )
        + f"; gates over {preset.name} are unknown until then",
    )
