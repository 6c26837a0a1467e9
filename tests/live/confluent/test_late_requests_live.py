"""A request whose connection broke is repeated, and its first copy reaches the broker in the next transaction."""

from collections.abc import Iterator

import pytest
from eos.gated import COMMITTED, GatedApp
from eos.late_requests import END_TXN, TXN_OFFSET_COMMIT, HoldingProxy, behind_proxy
from eos.ledger import Balance, Ledger
from eos.naive import PATIENT, Stall
from eos.pipes import Pipe
from waiting import eventually

from featuregate.testing import LocalKafka
from featuregate_confluent.producing.producers import Producers

pytestmark = [pytest.mark.proof("switch"), pytest.mark.live, pytest.mark.timeout(300)]

INPUTS = 5
BEFORE: Stall = "before send_offsets"
AFTER: Stall = "after send_offsets"


@pytest.fixture(scope="module")
def behind() -> Iterator[tuple[LocalKafka, HoldingProxy]]:
    with behind_proxy("4.2.0") as both:
        yield both


@pytest.fixture(params=[True, False], ids=["guarded", "unguarded"])
def guarded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a member replaces a producer that may have sent a request twice."""
    if not request.param:
        monkeypatch.setattr(Producers, "renew", lambda _self, _partitions: None)
    return bool(request.param)


class Late:
    """A member whose request is held in one round, and handed on while the next round of five inputs is open."""

    def __init__(self, behind: tuple[LocalKafka, HoldingProxy], model: str) -> None:
        kafka, self.proxy = behind
        self.model = model
        self.pipe = Pipe.on(kafka, f"late-{model}")

    def commits(self, api: int, where: Stall, *, dies: bool) -> Balance:
        with Ledger(self.pipe) as ledger, GatedApp("first", self.pipe, model=self.model) as member:
            ledger.feed_now(1)
            assert member.run(1) == 1, "it has its partitions and its producer"
            self.proxy.hold(api)
            ledger.feed_now(1)
            assert member.run(1) == 1
            ledger.feed_now(INPUTS)
            return self._go_on(ledger, member, where, dies=dies)

    def aborts(self) -> Balance:
        with Ledger(self.pipe) as ledger, GatedApp("first", self.pipe, model=self.model) as member:
            ledger.feed_now(1)
            assert member.run(1) == 1
            self.proxy.hold(END_TXN)
            ledger.feed_now(INPUTS)
            member.stall(INPUTS, BEFORE)
            member.abort()
            return self._go_on(ledger, member, BEFORE, dies=False)

    def _go_on(self, ledger: Ledger, member: GatedApp, where: Stall, *, dies: bool) -> Balance:
        member.stall(INPUTS, where)
        self.proxy.held().hand_on()
        if not dies:
            assert member.go_on(where) == COMMITTED
            member.switch.leave()
        with GatedApp("second", self.pipe, model=self.model, consumer=PATIENT) as heir:
            ledger.feed_now(1)
            eventually(lambda: heir.turn() >= 0 and self.pipe.committed() == {0: ledger.fed}, "the heir goes on")
            return ledger.settled()


@pytest.mark.parametrize("model", ["legacy", "v2"])
def test_a_late_commit(behind: tuple[LocalKafka, HoldingProxy], model: str, *, guarded: bool) -> None:
    """It commits the outputs of the next round without their offsets: they come twice if the member is killed then."""
    balance = Late(behind, model).commits(END_TXN, BEFORE, dies=True)
    assert len(balance.duplicated) == (0 if guarded else INPUTS)
    assert balance.exactly_once is guarded, balance


@pytest.mark.parametrize("model", ["legacy", "v2"])
def test_a_late_abort(behind: tuple[LocalKafka, HoldingProxy], model: str, *, guarded: bool) -> None:
    """It aborts the outputs of the next round, whose offsets are then committed in a transaction of their own."""
    balance = Late(behind, model).aborts()
    assert len(balance.lost) == (0 if guarded else INPUTS)
    assert balance.exactly_once is guarded, balance


@pytest.mark.parametrize("model", ["legacy", "v2"])
def test_late_offsets(behind: tuple[LocalKafka, HoldingProxy], model: str, *, guarded: bool) -> None:
    """They replace the offsets of the next round, whose inputs the next member processes again."""
    balance = Late(behind, model).commits(TXN_OFFSET_COMMIT, AFTER, dies=False)
    assert len(balance.duplicated) == (0 if guarded else INPUTS)
    assert balance.exactly_once is guarded, balance
