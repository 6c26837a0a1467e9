"""One member on featuregate's switch, step by step like the naive one: it can stall anywhere in a transaction."""

import threading
import time
from collections.abc import Mapping
from typing import Any, Self

from confluent_kafka import Consumer, Producer

from eos.naive import SHORT_LIVED, Stall
from eos.pipes import BOUND, SILENT, Pipe, provenance
from featuregate import Discoverer
from featuregate_confluent import Aborted, MustRejoin, ProducerSwitch
from featuregate_confluent.events import SwitchEvent
from featuregate_confluent.producing.transaction import Transaction

COMMITTED = "committed"


class StalledProducer:
    """A producer whose commit does not begin before somebody says so; in all else it is the one that it stands for."""

    def __init__(self, producer: Producer) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def __len__(self) -> int:
        return len(self._producer)

    def commit_transaction(self, timeout: float) -> None:
        self.reached.set()
        assert self.released.wait(2 * BOUND), "the test did not let the stalled transaction go on"
        self._producer.commit_transaction(timeout)


class GatedApp:
    """A member whose loop is the test's: what an app does that owns its loop, with a stop in the middle."""

    def __init__(
        self,
        name: str,
        pipe: Pipe,
        *,
        model: str = "auto",
        features: Discoverer | None = None,
        consumer: Mapping[str, object] | None = None,
        **switch: Any,
    ) -> None:
        self.name = name
        self.pipe = pipe
        self.events: list[SwitchEvent] = []
        self.outcome = ""
        self._stalled: Transaction | None = None
        self._halt: StalledProducer | None = None
        self._thread: threading.Thread | None = None
        config: dict[str, object] = {
            **pipe.client,
            "group.id": pipe.group,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
        }
        if (consumer or {}).get("group.protocol") != "consumer":
            config |= SHORT_LIVED
        self.switch = ProducerSwitch(
            consumer=config | dict(consumer or {}),
            producer={**pipe.client, "transaction.timeout.ms": 30_000, "linger.ms": 0},
            topics=[pipe.source],
            app_id=pipe.group,
            model=model,
            instance_id=name,
            features=features,
            metrics=self.events.append,
            interval=1.0,
            group_interval=0.2,
            **switch,
        )
        self._consumer = self._join()

    def _join(self) -> Consumer:
        consumer = Consumer(self.switch.consumer_config, logger=SILENT)
        self.switch.subscribe(consumer)
        return consumer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._halt is not None:
            self._halt.released.set()
        if self._thread is not None:
            self._thread.join(BOUND)
        self.switch.close()

    # ------------------------------------------------------------ like any other member

    def run(self, count: int, *, patience: float = BOUND) -> int:
        """Process until so many inputs were committed; how many were.

        It gives up when this member has been in the group for ``patience`` seconds.
        """
        done = 0
        until, joined = time.monotonic() + BOUND, None
        while done < count and time.monotonic() < until:
            if joined is None and self.switch.generation >= 0:
                joined = time.monotonic()
                until = min(until, joined + patience)
            done += self.turn()
        return done

    def turn(self) -> int:
        before = self.switch.committed
        done = 0
        try:
            for transaction in self.switch.transactions(self.switch.consume(100, 0.05)):
                with transaction:
                    self._produce(transaction)
                if self.switch.committed > before:
                    before = self.switch.committed
                    done += len(transaction.messages)
        except MustRejoin:
            self._consumer = self._join()
        return done

    def _produce(self, transaction: Transaction) -> None:
        for message in transaction.messages:
            transaction.produce(self.pipe.sink, message.value(), key=message.key(), headers=provenance(message))

    def pause(self) -> list[tuple[str, int]]:
        """Take no more inputs of the partitions that are this member's now; which these are."""
        mine = self._consumer.assignment()
        self._consumer.pause(mine)
        return [(each.topic, each.partition) for each in mine]

    def resume(self) -> None:
        self._consumer.resume(self._consumer.assignment())

    # ------------------------------------------------------------ a zombie in the making

    def stall(self, count: int, where: Stall) -> None:
        """Take that many inputs in one transaction, and stop where it was said in the middle of it."""
        messages: list[Any] = []
        until = time.monotonic() + BOUND
        while not messages and time.monotonic() < until:
            messages = self.switch.consume(count, 0.5)
        assert len(messages) == count, f"{self.name} was given {len(messages)} of {count} inputs"
        (self._stalled,) = self.switch.transactions(messages)
        self._stalled.begin()
        self._produce(self._stalled)
        self._stalled.producer.flush(BOUND)
        if where == "after send_offsets":
            self._halt = StalledProducer(self._stalled.producer)
            self._stalled.producer = self._halt  # type: ignore[assignment]
            self._thread = threading.Thread(target=self._finish, name=f"{self.name} stalled")
            self._thread.start()
            assert self._halt.reached.wait(BOUND), f"{self.name} did not come to its commit: {self.outcome}"

    def go_on(self, where: Stall) -> str:
        """Finish what was stalled, knowing nothing of what has happened since; how that ended."""
        if where == "before send_offsets":
            self._finish()
        else:
            assert self._halt is not None
            assert self._thread is not None
            self._halt.released.set()
            self._thread.join(2 * BOUND)
        return self.outcome

    def abort(self) -> None:
        assert self._stalled is not None
        self._stalled.abort()

    def _finish(self) -> None:
        assert self._stalled is not None
        try:
            self._stalled.commit()
        except (Aborted, MustRejoin) as refused:
            self.outcome = f"{type(refused).__name__}: {refused}"
        else:
            self.outcome = COMMITTED
