"""What a carrier does with a peer that talks without being asked."""

import asyncio

from featuregate.net.carrier import Carrier
from featuregate.wire.events import Disconnected
from featuregate.wire.session import Session


class FakeTransport(asyncio.Transport):
    """Counts how often it is paused and resumed."""

    def __init__(self):
        super().__init__()
        self.paused = self.resumed = 0

    def pause_reading(self):
        self.paused += 1

    def resume_reading(self):
        self.resumed += 1


def carrier():
    """A carrier that is connected to nobody."""
    made = Carrier(Session(client_id="c", software=("s", "1")))
    transport = FakeTransport()
    made.connection_made(transport)
    return made, transport


async def test_invariant_7_nobody_listens_to_a_peer_that_was_not_asked():
    """One read is taken in, then the peer has to wait."""
    made, transport = carrier()
    made.data_received(b"\0")
    assert transport.paused == 1


async def test_a_wait_listens_again():
    """And does not pause while it lasts."""
    made, transport = carrier()
    made.data_received(b"\0")
    wait = asyncio.ensure_future(made.event())
    await asyncio.sleep(0)
    made.data_received(b"\0")
    assert (transport.paused, transport.resumed) == (1, 1)
    made.connection_lost(None)
    assert await wait == Disconnected(None)


async def test_after_the_end_every_wait_is_over_at_once():
    """However often it is asked."""
    made, _ = carrier()
    made.connection_lost(None)
    assert [await made.event() for _ in range(2)] == [Disconnected(None)] * 2
