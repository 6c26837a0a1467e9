"""The report of a made-up fleet, of any size: some clients are old, and some brokers have no evidence."""

from datetime import UTC, datetime, timedelta

from fleet_evidence import UPGRADED, usage

from featuregate.catalog import captured
from featuregate_fleet.readiness.evidence import BrokerLog, Evidence, LevelAt, Usage, UsageAt
from featuregate_fleet.readiness.moves import ToRelease
from featuregate_fleet.readiness.report import Report, assess

NOW = datetime(2026, 11, 22, 12, 30, tzinfo=UTC)
WEEK = timedelta(days=7)
TARGET = captured()["4.2"]
APIS = (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 18, 22, 32, 60, 68)
"""Those of clients without transactions."""
SOFTWARE = (("apache-kafka-java", "3.7.0"), ("librdkafka", "2.6.1"), ("sarama", "1.61.1"), (None, None))


WORDS = str.maketrans("0123456789", "aeiouAEIOU")
"""Makes a client id that does not look generated."""


def of_client(number: int, *, oldest: bool) -> list[Usage]:
    """Return what one client used: the newest version of each API or, for an old client, version 0 of some, too."""
    name, version = SOFTWARE[number % len(SOFTWARE)]
    return [
        usage(
            key,
            used,
            principal=f"User:team-{number % 7}",
            client_id=f"client-{number}",
            software_name=name,
            software_version=version,
            count=10 ** (number % 6) + key,
            first_seen=NOW - WEEK,
            last_seen=NOW - timedelta(minutes=number),
        )
        for key in APIS
        for used in ({0, TARGET.apis[key][1]} if oldest else {TARGET.apis[key][1]})
    ]


def fleet(clients: int, *, old: int = 1, brokers: int = 3, silent: int = 0) -> Report:
    """Assess a fleet whose first clients are old, and whose last brokers have no evidence."""
    return assess(fleet_evidence(clients, old=old, brokers=brokers, silent=silent), ToRelease(TARGET), NOW, WEEK)


def fleet_evidence(clients: int, *, old: int = 1, brokers: int = 3, silent: int = 0) -> Evidence:
    logged = [str(number) for number in range(1, brokers - silent + 1)]
    hours = [NOW.replace(minute=0) - timedelta(hours=back) for back in range(100)]
    days = [NOW.replace(hour=0, minute=0) - timedelta(days=back) for back in range(20)]
    hourly = {
        broker: {hour: 10 ** (1 + hour.hour % 5) for hour in hours if hour.day % 6 != int(broker) % 6}
        for broker in logged
    }
    logs = {
        broker: BrokerLog(hours=len(of), requests=sum(of.values()), first_seen=min(of), last_seen=max(of))
        for broker, of in hourly.items()
    }
    return Evidence(
        usage=tuple(usage for number in range(clients) for usage in of_client(number, oldest=number < old)),
        brokers=logs,
        hourly=hourly,
        over_time=tuple(
            UsageAt(f"{name} {version}" if name else "", key, used, days[back], 9 + back)
            for number, (name, version) in enumerate(SOFTWARE[:clients])
            for key in APIS
            for used in ({0, TARGET.apis[key][1]} if number < old else {TARGET.apis[key][1]})
            for back in range(number, 20, 3)
        ),
        levels=tuple(
            LevelAt(feature, level, NOW - timedelta(days=days))
            for days, levels in ((20, (0, 19)), (9, (0, 25)), (2, (1, 25)), (1, (1, 25)))
            for feature, level in zip(("group.version", "metadata.version"), levels, strict=True)
        ),
        expected=frozenset(map(str, range(1, brokers + 1))),
        view=UPGRADED,
        read=10**6,
        rows=10**6,
        version=7,
    )
