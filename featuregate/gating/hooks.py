"""What an app registered to be called with events, and the calls. A hook that fails is logged and survived."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from featuregate.gating.events import Changed, Event, MetricsHook, OnChange
from featuregate.logs import get_logger

logger = get_logger("featuregate")

H = TypeVar("H")


class Hooks:
    """Holds hooks, which take each event, and listeners, which take changes of the view. Takes no lock."""

    def __init__(self) -> None:
        self._listeners: dict[object, OnChange] = {}
        self._hooks: dict[object, MetricsHook] = {}

    def listen(self, listener: OnChange) -> Callable[[], None]:
        """Call ``listener`` on each change from now on; returns what takes it off again."""
        return _registered(self._listeners, listener)

    def hook(self, hook: MetricsHook) -> Callable[[], None]:
        """Call ``hook`` with each event from now on; returns what takes it off again."""
        return _registered(self._hooks, hook)

    def notify(self, *events: Event) -> None:
        """Call the hooks with these events; the caller holds no lock."""
        for event in events:
            for hook in self._hooks.copy().values():
                _call(hook, event)
            if isinstance(event, Changed):
                for listener in self._listeners.copy().values():
                    _call(listener, event)


def _registered(hooks: dict[object, H], hook: H) -> Callable[[], None]:
    if not callable(hook):
        raise TypeError(f"a function is called with events, not {hook!r}")
    place = object()  # the same hook may be registered twice, and each registration removed by itself
    hooks[place] = hook

    def off() -> None:
        hooks.pop(place, None)

    return off


def _call(hook: Callable[[Any], None], event: Event) -> None:
    try:
        hook(event)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit) and threading.current_thread() is threading.main_thread():
            raise  # a signal handler may have raised it, and means the app
        name = getattr(hook, "__qualname__", repr(hook))
        logger.exception("hook %s failed on %s", name, type(event).__name__)
