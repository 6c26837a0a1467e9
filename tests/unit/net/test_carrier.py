"""How the carrier treats a peer that sends bytes without a request."""

import asyncio

from featuregate.net.asyncio_carrier import AsyncioCarrier
from featuregate.wire.session import Disconnected, Session


class FakeTransport(asyncio.Transport):
    """A transport that counts how often it is paused and resumed."""

    def __init__(self):
        super().__init__()
        self.paused = self.resumed = 0

    def pause_reading(self):
        self.paused += 1

    def resume_reading(self):
        self.resumed += 1


def carrier():
    """Return a carrier on a fake transport."""
    made = AsyncioCarrier(Session(client_id="c", software=("s", "1")))
    transport = FakeTransport()
    made.connection_made(transport)
    return made, transport


async def test_invariant_7_the_carrier_pauses_a_peer_that_was_not_asked():
    made, transport = carrier()
    made.data_received(b"\0")
    assert transport.paused == 1


async def test_a_wait_resumes_reading():
    made, transport = carrier()
    made.data_received(b"\0")
    wait = asyncio.ensure_future(made.event())
    await asyncio.sleep(0)
    made.data_received(b"\0")
    assert (transport.paused, transport.resumed) == (1, 1)
    made.connection_lost(None)
    assert await wait == Disconnected(None)


async def test_after_the_end_every_wait_is_over_at_once():
    made, _ = carrier()
    made.connection_lost(None)
    assert [await made.event() for _ in range(2)] == [Disconnected(None)] * 2
