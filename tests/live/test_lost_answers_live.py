"""An update whose record waits for a real quorum: what the controller answers then is no refusal."""

import threading

import pytest

from featuregate import Admin, discover
from featuregate.admin.updates import upgrade
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("admin"), pytest.mark.live]

PATIENCE = 8.0
"""Seconds for the update: a leader resigns after 3 without a majority (1.5 x controller.quorum.fetch.timeout.ms)."""


def test_a_controller_that_resigns_with_the_record_in_its_log_is_read_back() -> None:
    """It answers NOT_CONTROLLER; once it leads again, which the longer log makes sure of, the record is committed."""
    with LocalKafka("4.2.0", controllers=2, features={"share.version": 0}) as kafka:
        quorum = {"bootstrap.controllers": kafka.controller_bootstrap}
        leader = discover(quorum).controller_id
        (other,) = (node for node in kafka.controllers if node != leader)
        kafka.pause(other)
        resume = threading.Timer(PATIENCE + 2, kafka.resume, (other,))
        resume.start()
        try:
            outcome = Admin(quorum, timeout=PATIENCE, read_back=120).update(upgrade({"share.version": 1}))
        finally:
            resume.join()
        assert (outcome.done, outcome.read_back) == (True, True)
        assert Admin(kafka.bootstrap).wait_for_levels({"share.version": 1}, 60).level("share.version") == 1
