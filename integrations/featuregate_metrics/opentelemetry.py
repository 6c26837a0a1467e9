"""The numbers and the events of a discoverer for OpenTelemetry."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, assert_never
from weakref import WeakKeyDictionary

from featuregate.errors import ConfigError
from featuregate.gating.events import Changed, Event, GateMoved, Polled, PollFailed
from featuregate.version import __version__, how_to_install
from featuregate_metrics.counts import NUMBERS, EventCounts, Number

try:
    from opentelemetry._logs import LogRecord, SeverityNumber, get_logger
    from opentelemetry.metrics import CallbackOptions, Observation, get_meter
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "opentelemetry":
        raise
    raise ImportError(
        f"featuregate_metrics.opentelemetry needs opentelemetry-api: {how_to_install('opentelemetry')}"
    ) from error

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider

    from featuregate import Decision, Discoverer, Gate

_SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
_NAME: Final = "featuregate"
_EVALUATION: Final = "feature_flag.evaluation"
_LABELS: Final = {
    "gate": "feature_flag.key",
    "for": "featuregate.waits.for",
    "kind": "featuregate.change",
    "state": "featuregate.gate.state",
    "status": "featuregate.status",
    "to": "featuregate.gate.to",
}
"""The attributes, by the labels of Prometheus."""


class _Instruments:
    """The instruments of one meter provider. It makes each name once, and drops the callbacks of another one."""

    def __init__(self, provider: MeterProvider | None) -> None:
        self.reported: dict[str, FeatureTelemetry] = {}
        """By the name of the cluster."""
        meter = get_meter(_NAME, __version__, provider, _SCHEMA)
        self.seconds = meter.create_histogram(
            "featuregate.poll.duration", unit="s", description="Seconds that a poll took."
        )
        for number in NUMBERS:
            make = meter.create_observable_gauge if number.kind == "gauge" else meter.create_observable_counter
            callback = partial(self._observed, number)
            make(f"featuregate.{number.name}", [callback], unit=number.unit, description=number.meaning)

    def _observed(self, number: Number, _: CallbackOptions) -> list[Observation]:
        return [each for telemetry in list(self.reported.values()) for each in telemetry.observed(number)]


class _GlobalProvider:
    """Stands for the global provider, which an app may set later."""


_GLOBAL: Final = _GlobalProvider()
_OF_PROVIDERS: Final[WeakKeyDictionary[MeterProvider | _GlobalProvider, _Instruments]] = WeakKeyDictionary()


class FeatureTelemetry:
    """Reports one discoverer to OpenTelemetry, from now on until :meth:`stop`.

    Each gate that moves is an event ``feature_flag.evaluation`` with the attributes of the semantic conventions 1.44. A
    check of a gate is none, because it is one attribute read: see :meth:`record`. Raises ConfigError: another
    discoverer is reported under the same name of a cluster, so that nobody could see whose numbers these are.

    Parameters
    ----------
    cluster
        The attribute ``featuregate.cluster`` of all numbers, a name of the app's own.
    meter_provider, logger_provider
        Those of the SDK; by default the global ones.
    """

    def __init__(
        self,
        features: Discoverer,
        *,
        cluster: str = "default",
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
    ) -> None:
        self._features = features
        self._labels = {"featuregate.cluster": cluster}
        self._logger = get_logger(_NAME, __version__, logger_provider, _SCHEMA)
        provider = _GLOBAL if meter_provider is None else meter_provider
        if provider not in _OF_PROVIDERS:
            _OF_PROVIDERS[provider] = _Instruments(meter_provider)
        self._instruments = _OF_PROVIDERS[provider]
        self._counts = EventCounts(features.health()["gates"])
        if self._instruments.reported.setdefault(cluster, self) is not self:
            raise ConfigError("cluster", f"{cluster!r} is reported already: give each discoverer a name of its own")
        self._off = features.on_event(self._report)

    def stop(self) -> None:
        """Report nothing any more."""
        cluster = self._labels["featuregate.cluster"]
        if self._instruments.reported.get(cluster) is self:
            del self._instruments.reported[cluster]
        self._off()

    def record(self, gate: Gate) -> None:
        """Report the decision of a gate as an evaluation, for a check that matters enough."""
        self._emit(gate.name, gate.decision)

    def _report(self, event: Event) -> None:
        self._counts(event)
        match event:
            case Polled(seconds=seconds):
                self._instruments.seconds.record(seconds, self._labels)
            case PollFailed(seconds=seconds):
                self._instruments.seconds.record(seconds, {**self._labels, "error.type": "poll_failed"})
            case Changed():
                pass
            case GateMoved(gate=gate, decision=decision):
                self._emit(gate, decision)
            case _:
                assert_never(event)

    def _emit(self, gate: str, decision: Decision) -> None:
        attributes: dict[str, str | bool] = {
            "feature_flag.key": gate,
            "feature_flag.provider.name": _NAME,
            "feature_flag.result.variant": "open" if decision.open else decision.verdict,
            "feature_flag.result.value": decision.open,
            "feature_flag.result.reason": _reason(decision),
            "feature_flag.version": str(decision.epoch),
        }
        if decision.cluster_id is not None:
            attributes["feature_flag.set.id"] = decision.cluster_id
        self._logger.emit(
            LogRecord(
                event_name=_EVALUATION,
                severity_number=SeverityNumber.INFO,
                body=decision.summary,
                attributes=attributes,
            )
        )

    def observed(self, number: Number) -> list[Observation]:
        """Return a number as it is now, for each value of its labels."""
        names = [_LABELS[label] for label in number.labels]
        return [
            Observation(value, {**self._labels, **dict(zip(names, labels, strict=True))})
            for labels, value in number.read(self._features.health(), self._counts).items()
            if value is not None
        ]


def _reason(decision: Decision) -> str:
    """Say what a value rests on, in the words of the conventions: answers of brokers, a latch, or nothing."""
    if decision.held is not None:
        return "cached"
    return "unknown" if decision.verdict == "unknown" else "static"
