"""Which errors of a consumer pass by themselves, which need a new consumer, and which are fatal."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from featuregate_confluent.errors import InstanceTaken, MustRejoin, SwitchFatal
from featuregate_librdkafka.error_actions import ErrorAction, action_for, explain

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger("featuregate.confluent")

_TRANSIENT: Final = frozenset({"_PARTITION_EOF", "_MAX_POLL_EXCEEDED", "UNKNOWN_TOPIC_OR_PART"})
# A consumer with a fatal error says ``_FATAL``; only the text has the broker's reason.
_FENCED: Final = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
_UNRELEASED: Final = KafkaError(KafkaError.UNRELEASED_INSTANCE_ID).str()


def raise_for_consumer_errors(errors: Iterable[KafkaError]) -> None:
    """Return if all of these pass by themselves.

    Raises
    ------
    InstanceTaken
        Another member has the group.instance.id, maybe only until the session of a killed process times out.
    MustRejoin
        A new consumer action.
    SwitchFatal
        It does not.
    """
    for error in errors:
        words, action = f"{error.name()} ({error.str()})", action_for(error)
        if error.name() in _TRANSIENT:
            logger.info("%s: %s", error.name(), error.str())
        elif _FENCED in error.str():
            raise SwitchFatal(
                "another process has this one's group.instance.id, and has taken its place in the group. Give each "
                f"process its own: {words}"
            )
        elif _UNRELEASED in error.str():
            raise InstanceTaken(f"another member has this one's group.instance.id: {words}")
        elif action is ErrorAction.FATAL:
            raise SwitchFatal(f"the consumer cannot go on: {words}: {explain(error).reason}")
        elif error.fatal() or action is ErrorAction.REJOIN:
            raise MustRejoin(f"create a new consumer: {words}")
        else:
            logger.warning("the consumer says: %s", words)
