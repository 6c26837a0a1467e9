"""The provider: flags out of gates and the view of a discoverer, and an event for each change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from openfeature.event import ProviderEvent, ProviderEventDetails
from openfeature.exception import FlagNotFoundError, ProviderFatalError, ProviderNotReadyError, TypeMismatchError
from openfeature.flag_evaluation import FlagResolutionDetails, FlagValueType, Reason
from openfeature.provider import AbstractProvider, Metadata

from featuregate.errors import ClosedError, ConfigError
from featuregate.flags import NO_FLAGS, PREFIXES, Flag, gate_flag, no_flag, view_flags
from featuregate.forks import follow_forks

if TYPE_CHECKING:
    from openfeature.evaluation_context import EvaluationContext

    from featuregate import Discoverer, Gate, View
    from featuregate.gating.events import Event

_NAME: Final = "featuregate"
_STALE: Final = frozenset({"stale", "closed"})


class KafkaFeatureProvider(AbstractProvider):
    """Resolves gates, levels, releases and ranges of one cluster as OpenFeature flags.

    Everything is resolved from memory: no call does I/O, in coroutines neither. The evaluation context changes nothing,
    because every app of a cluster has the same truth. Raises `ConfigError`: the name of a gate would hide another flag.

    Parameters
    ----------
    features
        The discoverer. The provider starts it, and closes it when the SDK shuts the provider down.
    gates
        The gates of ``features`` that are boolean flags, each by its name.
    timeout
        Seconds for which the SDK's initialization waits for the first view. Without one the provider is in error, and
        becomes ready with the first view.
    """

    def __init__(self, features: Discoverer, gates: Iterable[Gate] = (), *, timeout: float = 15.0) -> None:
        super().__init__()
        self._features = features
        self._gates = {gate.name: gate for gate in gates}
        if hidden := next((name for name in self._gates if name.startswith(PREFIXES)), None):
            raise ConfigError(
                "gates", f"{hidden!r} would hide another flag: choose a name without {', '.join(PREFIXES)}"
            )
        self._timeout = timeout
        self._is_attached = False
        self._seen: View | None = None
        self._view_flags = NO_FLAGS
        self._worth: Mapping[str, object] = {}
        self._emitted: ProviderEvent | None = None
        """The last event that the SDK got; None before the initialization, and after the end."""
        self._stop_events: Callable[[], None] | None = None
        self.forked()
        follow_forks(self)

    # ------------------------------------------------------------------ life

    def forked(self) -> None:
        """Take another lock in a forked child, and end an initialization that a thread of the SDK does not end there.

        The SDK asks a provider nothing before that, so polling starts here and not at the first check of a gate.
        """
        self._lock = threading.RLock()
        if self._is_attached and self._emitted is None:
            self._emitted = ProviderEvent.PROVIDER_ERROR  # the first view makes it ready
            self._follow()
            self._features.ensure_polling()

    def attach(self, on_emit: Callable[..., None]) -> None:
        """Begin to emit events to the SDK, which initializes the provider next, in another thread or in this one."""
        super().attach(on_emit)
        self._is_attached = True

    def get_metadata(self) -> Metadata:
        """Return the name of the provider."""
        return Metadata(name=_NAME)

    def initialize(self, evaluation_context: EvaluationContext) -> None:  # noqa: ARG002 - the SDK's signature
        """Wait for the first view. The SDK itself emits what comes of it."""
        self._follow()
        try:
            self._features.start()
            found = self._features.wait(self._timeout)
        except ClosedError as error:
            raise ProviderFatalError(str(error)) from error
        with self._lock:
            self._update()
            self._emitted = ProviderEvent.PROVIDER_READY if found else ProviderEvent.PROVIDER_ERROR
        if not found:
            raise ProviderNotReadyError(
                f"no view within {self._timeout:.0f} s: {self._features.health()['last_error']}"
            )

    def _follow(self) -> None:
        if self._stop_events is None:
            self._stop_events = self._features.on_event(self._look)

    def shutdown(self) -> None:
        """Stop polling. Called by the SDK."""
        self._is_attached = False
        stop_events, self._stop_events = self._stop_events, None
        if stop_events is not None:
            stop_events()
        with self._lock:
            self._emitted = None
        self._features.close()  # without the lock: the poll loop ends only when its callbacks have

    # ------------------------------------------------------------------ events

    def _look(self, _event: Event) -> None:
        """Emit what has changed since the last event. In the poll loop, or where a gate is made."""
        with self._lock:
            emitted, changed = self._emitted, self._update()
            if emitted is None:
                return
            health = self._features.health()
            now = _event_of(health["status"], emitted)
            details = ProviderEventDetails(message="; ".join(health["reasons"]) or None)
            self._emitted = now
            if changed and emitted is not ProviderEvent.PROVIDER_ERROR:
                self.emit_provider_configuration_changed(ProviderEventDetails(flags_changed=changed))
            if now is not emitted:
                self.emit(now, details)

    def _update(self) -> list[str]:
        """Take the current flags, and return the keys of those whose value or variant has changed."""
        view = self._features.view
        if view is not None and (self._seen is None or not view.same_content(self._seen)):
            self._seen, self._view_flags = view, view_flags(view)
        flags = {**self._view_flags} | {name: gate_flag(gate.decision) for name, gate in self._gates.items()}
        worth = {key: (flag.value, flag.variant) for key, flag in flags.items()}
        before, self._worth = self._worth, worth
        return sorted(key for key in {*before, *worth} if before.get(key) != worth.get(key))

    # ------------------------------------------------------------------ flags

    def resolve_boolean_details(
        self,
        flag_key: str,
        default_value: bool,  # noqa: FBT001 - the SDK's signature
        evaluation_context: EvaluationContext | None = None,  # noqa: ARG002 - see initialize
    ) -> FlagResolutionDetails[bool]:
        """Resolve a gate."""
        return self._resolve(flag_key, default_value, bool)

    def resolve_integer_details(
        self,
        flag_key: str,
        default_value: int,
        evaluation_context: EvaluationContext | None = None,  # noqa: ARG002 - see initialize
    ) -> FlagResolutionDetails[int]:
        """Resolve a level."""
        return self._resolve(flag_key, default_value, int)

    def resolve_string_details(
        self,
        flag_key: str,
        default_value: str,
        evaluation_context: EvaluationContext | None = None,  # noqa: ARG002 - see initialize
    ) -> FlagResolutionDetails[str]:
        """Resolve a release."""
        return self._resolve(flag_key, default_value, str)

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[FlagValueType] | Mapping[str, FlagValueType],
        evaluation_context: EvaluationContext | None = None,  # noqa: ARG002 - see initialize
    ) -> FlagResolutionDetails[Sequence[FlagValueType] | Mapping[str, FlagValueType]]:
        """Resolve a range."""
        return self._resolve(flag_key, default_value, dict)

    def resolve_float_details(
        self,
        flag_key: str,
        default_value: float,
        evaluation_context: EvaluationContext | None = None,  # noqa: ARG002 - see initialize
    ) -> FlagResolutionDetails[float]:
        """Refuse: no flag is a float, and no level is made one."""
        return self._resolve(flag_key, default_value, float)

    def _resolve(self, key: str, default: Any, wanted: type) -> FlagResolutionDetails[Any]:
        view = self._features.view
        if view is None or self._seen is None:
            raise ProviderNotReadyError("no broker has answered yet")
        gate = self._gates.get(key)
        flag = gate_flag(gate.decision) if gate is not None else self._view_flags.get(key)
        if flag is None:
            raise FlagNotFoundError(no_flag(key, (*self._gates, *self._view_flags)))
        if flag.type is not wanted:  # never isinstance: a bool is an int in Python, and a gate is no number
            raise TypeMismatchError(f"{key} is of type {flag.type.__name__}, not {wanted.__name__}")
        return FlagResolutionDetails(
            value=default if flag.value is None else copy(flag.value),  # an app may change what it gets
            reason=self._reason(flag, held=gate is not None and gate.decision.held is not None),
            variant=flag.variant,
            flag_metadata={"why": flag.why, "clusterId": view.cluster_id or "", "epoch": view.epoch},
        )

    def _reason(self, flag: Flag, *, held: bool) -> Reason:
        """Say what a value rests on: fresh answers of brokers, old ones, a latch, or nothing."""
        if self._emitted is ProviderEvent.PROVIDER_STALE:
            return Reason.STALE
        if held:
            return Reason.CACHED
        if flag.variant == "unknown":
            return Reason.UNKNOWN
        return Reason.DEFAULT if flag.value is None else Reason.STATIC


def _event_of(status: str, before: ProviderEvent) -> ProviderEvent:
    """Return the event by which the SDK learns the status of a discoverer."""
    if status in _STALE:
        return ProviderEvent.PROVIDER_STALE
    if status in {"starting", "failing"}:  # there has never been a view
        return before
    return ProviderEvent.PROVIDER_READY
