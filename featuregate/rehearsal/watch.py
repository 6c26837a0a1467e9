"""The apps between two moments of a rehearsal: seen on the small cluster, and then in, out, lost and doubled."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import AdminClient

from featuregate.errors import LocalKafkaError
from featuregate.printable import some
from featuregate.rehearsal.apps import READABLE, AppProcesses
from featuregate.rehearsal.runbook import StepCounts, StepFinding
from featuregate.rehearsal.state import SECONDS, ends_of, group_types, read_progress
from featuregate.testing.traffic import CommittedOutput, InputLoad, Loop, OutputReader, duplicates, wait_for

if TYPE_CHECKING:
    from featuregate.testing import LocalKafka

_KEY: Final = re.compile(rb"rehearsal-\d+")
_BURST: Final = 5
_LOOK_SECONDS: Final = 0.1


class AppWatch(ExitStack):
    """Apps at work while their cluster moves, until the end of the ``with`` block.

    ``topics``: those that they read and write, with the numbers of their partitions. ``record``: the value of an input,
    in which ``{n}`` is the number. ``rate``: inputs a second. ``timeout`` bounds the wait for records at the end of a
    step.
    """

    def __init__(
        self,
        kafka: LocalKafka,
        apps: AppProcesses,
        topics: tuple[tuple[str, int], tuple[str, int]] | None,
        *,
        record: str,
        rate: float,
        timeout: float,
    ) -> None:
        super().__init__()
        self._config = {**kafka.client_config(), "log_level": 0}
        self._where = {"bootstrap.servers": kafka.internal_bootstrap}
        self._apps, self._topics, self._timeout = apps, topics, timeout
        self._value, self._every = partial(record.replace, "{n}"), _BURST / rate
        self._loops: list[Loop] = []
        self._load: InputLoad | None = None
        self._seen: list[CommittedOutput] = []
        self._sent = self._read = 0
        """How many inputs and outputs earlier steps have counted."""

    def start(self, start_timeout: float) -> None:
        """Start the apps, and the records once each app was seen on the small cluster.

        Raises `LocalKafkaError`: an app was not seen in time, or has ended.
        """
        self.callback(self._apps.close)
        self._apps.start()
        if READABLE:
            self._run(Loop(self._apps.look, every=_LOOK_SECONDS))
        until = time.monotonic() + start_timeout
        try:
            wait_for("the apps are seen", self._are_at_work, start_timeout, self.check)
        except TimeoutError as error:
            who = ", ".join(self._apps.unseen()) or "any app"
            raise LocalKafkaError(f"{who} was not seen on the small cluster in time", self._apps.tail()) from error
        if self._topics is not None:
            self._send(*self._topics)
            self._wait(lambda: self._seen, until)  # a pause begins with an output
        self._apps.restarted()
        self._apps.new_errors()  # of the start, when a new cluster has no coordinator yet

    def _send(self, source: tuple[str, int], target: tuple[str, int]) -> None:
        self._load = InputLoad(
            self._config, [source[0]], partitions=source[1], size=_BURST, name="rehearsal-{}".format, value=self._value
        )
        reader = OutputReader(self._config, [target[0]], partitions=target[1], key_of=_key_of)
        self.callback(reader.close)
        self._seen = reader.seen[target[0]]
        self._run(Loop(reader.read))
        self._run(Loop(self._load.send, every=self._every))
        self.callback(self._load.close)  # first of all: a broker that is away would be waited for

    def _run(self, loop: Loop) -> None:
        self._loops.append(self.enter_context(loop))

    def check(self) -> None:
        """Raise the error that has ended a loop, or `LocalKafkaError` where an app has ended."""
        for loop in self._loops:
            loop.check()
        if ended := self._apps.ended():
            raise LocalKafkaError("; ".join(ended), self._apps.tail())

    def _wait(self, ask: Callable[[], object], until: float) -> None:
        """Wait until an answer is true, time is over, or an app has ended."""
        with suppress(TimeoutError, LocalKafkaError):
            wait_for("the apps go on", ask, until - time.monotonic(), self.check)

    @property
    def _admin(self) -> Any:
        return AdminClient({**self._where, "log_level": 0})

    def _are_at_work(self) -> bool:
        """Say whether each app was seen, and there is a group, or a topic has records: a new cluster has neither."""
        if self._apps.unseen():
            return False
        if group_types(self._where):
            return True
        topics = self._admin.list_topics(timeout=SECONDS).topics.items()
        places = [TopicPartition(name, each) for name, found in topics if name[:2] != "__" for each in found.partitions]
        return any(ends_of(self._admin, places))

    def _progress(self) -> dict[tuple[str, str], tuple[int, int]]:
        return read_progress(self._admin, group_types(self._where))

    def end_step(self, *, at_least: float = 0.0) -> tuple[StepCounts | None, list[StepFinding]]:
        """Wait until what was sent is out; return the counts, and what somebody has to look at.

        ``at_least``: seconds for which the apps are at work first. Raises `KafkaException`: no more records could be
        sent.
        """
        time.sleep(at_least)
        findings, counts = list[StepFinding](), None
        if self._load is None:
            self._standing_still(findings)
        else:
            counts = self._counts(self._load, findings)
        for loop in self._loops:
            loop.check()
        findings += [StepFinding("block", each) for each in self._apps.ended()]
        findings += [StepFinding("warn", each) for each in (*self._apps.new_errors(), *self._apps.restarted())]
        return counts, findings

    def _standing_still(self, findings: list[StepFinding]) -> None:
        """Wait for each group that has records to read, until it has read more of each partition than at first."""
        first: dict[tuple[str, str], tuple[int, int]] = {}
        still: dict[tuple[str, str], int] | None = None

        def all_go_on() -> bool:
            nonlocal first, still
            still = None  # not known while a topic has no leader
            now = self._progress()
            first = first or now
            still = {at: lag for at, (done, lag) in now.items() if lag and done <= first.get(at, (-1, 0))[0]}
            return not still

        self._wait(all_go_on, time.monotonic() + self._timeout)
        if still is None:
            findings.append(StepFinding("unknown", "the brokers do not say which groups stand still"))
        for group, found in groupby((still or {}).items(), lambda one: one[0][0]):
            lags = {place: lag for (_, place), lag in found}
            text = f"group {group} stands still in {some(lags)}: {sum(lags.values())} records wait for it"
            findings.append(StepFinding("warn", text))

    def _counts(self, load: InputLoad, findings: list[StepFinding]) -> StepCounts:
        """Wait for records that are sent now, when the step is done, and for all that were sent since the last one."""
        until, before = time.monotonic() + self._timeout, len(load.sent)
        self._wait(lambda: len(load.sent) > before, until)
        keys, first = list(load.sent), self._read
        sent = {*keys[self._sent :]}
        self._wait(lambda: sent <= {each.key for each in self._seen}, until)
        seen = list(self._seen)
        self._sent, self._read = len(keys), len(seen)
        lost = sent - {each.key for each in seen}
        doubled = len(duplicates(seen)) - len(duplicates(seen[:first]))
        times = [each.at for each in seen[max(first - 1, 0) :]]
        pause = max((after - before for before, after in pairwise(times)), default=0.0)
        if doubled:
            findings.append(StepFinding("block", f"{doubled} record{'s' * (doubled > 1)} came out again"))
        if len(keys) == before and not self._apps.ended():
            findings.append(StepFinding("unknown", "no record was sent after it, so it shows nothing of the app"))
        return StepCounts(len(sent), len(sent) - len(lost), len(lost), doubled, pause)


def _key_of(message: Message) -> str:
    """Find the key of the input in the key or the value of an output."""
    found = _KEY.search(message.key() or b"") or _KEY.search(message.value() or b"")
    return found[0].decode() if found else ""
