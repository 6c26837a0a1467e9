"""The numbers and the events of a discoverer for OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, assert_never

from featuregate.gating.events import Changed, Event, GateMoved, Polled, PollFailed
from featuregate.version import __version__

try:
    from opentelemetry._logs import LogRecord, SeverityNumber, get_logger
    from opentelemetry.metrics import CallbackOptions, Observation, get_meter
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "opentelemetry":
        raise
    raise ImportError(
        "featuregate_metrics.opentelemetry needs opentelemetry-api: pip install '.[opentelemetry]' in a checkout"
    ) from error

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider

    from featuregate import Decision, Discoverer, Gate

_SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
_NAME: Final = "featuregate"
_EVALUATION: Final = "feature_flag.evaluation"


class FeatureTelemetry:
    """Reports one discoverer to OpenTelemetry, from now on until :meth:`stop`.

    Each gate that moves is an event ``feature_flag.evaluation`` with the attributes of the semantic conventions 1.44. A
    check of a gate is none, because it is one attribute read: see :meth:`record`.

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
        meter = get_meter(_NAME, __version__, meter_provider, _SCHEMA)
        self._seconds = meter.create_histogram(
            "featuregate.poll.duration", unit="s", description="Seconds that a poll took."
        )
        self._changes = meter.create_counter(
            "featuregate.changes", unit="{change}", description="Differences between two views, by their kind."
        )
        gauges: dict[str, tuple[str, str, Callable[[dict[str, Any]], float | None]]] = {
            "featuregate.view.age": ("s", "Seconds since a broker answered.", lambda health: health["age_seconds"]),
            "featuregate.epoch": ("1", "Epoch of the finalized levels.", lambda health: health["epoch"]),
            "featuregate.brokers.known": (
                "{broker}",
                "Brokers of the cluster.",
                lambda health: health["brokers_known"],
            ),
            "featuregate.brokers.answered": (
                "{broker}",
                "Brokers that answered the last poll.",
                lambda health: health["brokers_answered"],
            ),
        }
        for name, (unit, meaning, read) in gauges.items():
            meter.create_observable_gauge(name, [self._observing(read)], unit=unit, description=meaning)
        meter.create_observable_gauge(
            "featuregate.gate.open", [self._observe_gates], unit="1", description="1 if the gate is open."
        )
        meter.create_observable_gauge(
            "featuregate.gate.waits",
            [self._observe_waits],
            unit="1",
            description="1 if a hold or the burn-in keeps the gate closed.",
        )
        self._off = features.on_event(self._report)
        self._stopped = False

    def stop(self) -> None:
        """Report nothing any more."""
        self._stopped = True
        self._off()

    def record(self, gate: Gate) -> None:
        """Report the decision of a gate as an evaluation, for a check that matters enough."""
        self._emit(gate.name, gate.decision)

    def _report(self, event: Event) -> None:
        match event:
            case Polled(seconds=seconds):
                self._seconds.record(seconds, self._labels)
            case PollFailed(seconds=seconds):
                self._seconds.record(seconds, {**self._labels, "error.type": "poll_failed"})
            case Changed(differences=differences):
                for difference in differences:
                    self._changes.add(1, {**self._labels, "featuregate.change": difference.kind})
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

    def _observing(
        self, read: Callable[[dict[str, Any]], float | None]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            value = None if self._stopped else read(self._features.health())
            return [] if value is None else [Observation(value, self._labels)]

        return observe

    def _observe_gates(self, _: CallbackOptions) -> Iterable[Observation]:
        gates: dict[str, bool] = {} if self._stopped else self._features.health()["gates"]
        return [
            Observation(int(is_open), {**self._labels, "feature_flag.key": name}) for name, is_open in gates.items()
        ]

    def _observe_waits(self, _: CallbackOptions) -> Iterable[Observation]:
        waits: dict[str, dict[str, str]] = {} if self._stopped else self._features.health()["waits"]
        return [
            Observation(1, {**self._labels, "feature_flag.key": name, "featuregate.waits.for": waiting["for"]})
            for name, waiting in waits.items()
        ]


def _reason(decision: Decision) -> str:
    """Say what a value rests on, in the words of the conventions: answers of brokers, a latch, or nothing."""
    if decision.held is not None:
        return "cached"
    return "unknown" if decision.verdict == "unknown" else "static"
