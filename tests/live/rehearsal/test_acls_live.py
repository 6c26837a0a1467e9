"""ACLs of the real cluster: they are copied, and compared after each step."""

import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AdminClient
from rehearsing import rehearse

from featuregate.rehearsal.original import OriginalCluster
from featuregate.testing import LocalKafka

pytestmark = [pytest.mark.proof("testing"), pytest.mark.live, pytest.mark.slow]

ACLS = [AclBinding(2, "orders", 3, who, "*", 3, 3) for who in ("User:alice", "User:bob")]
READ = "acl ALLOW READ User:alice from * of TOPIC orders (LITERAL)"
APP = """\
import os, time
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AclBindingFilter, AdminClient

where = {"bootstrap.servers": os.environ["BOOTSTRAP_SERVERS"]}
producer, admin = Producer(where), AdminClient(where)
producer.produce("seen", b"x")
producer.flush(60)
try:
    while True:
        admin.list_topics(timeout=0.5)
        time.sleep(0.1)
except KafkaException:  # its broker restarts
    which = AclBindingFilter(1, None, 1, "User:alice", None, 1, 1)
    admin.delete_acls([which], request_timeout=60)[which].result()
time.sleep(600)
"""


@pytest.mark.parametrize("deleted", [True, False])
def test_an_acl_that_is_gone_blocks(tmp_path: Path, *, deleted: bool) -> None:
    """The one that an app deletes; each client of the small cluster is a super user. The real cluster keeps its own."""
    (tmp_path / "app.py").write_text(APP)
    app = ("--app", f"{sys.executable} {tmp_path / 'app.py'}") if deleted else ()
    with LocalKafka("3.9.2", properties=OriginalCluster(authorized=True).authorizer("3.9.2")) as real:
        admin: Any = AdminClient({"bootstrap.servers": real.bootstrap})
        for each in admin.create_acls(ACLS).values():
            each.result(60)
        where = ("--from-cluster", real.bootstrap, "--from", "3.9.2")
        done = rehearse(tmp_path, *where, "--to", "4.2.0", "--nodes", "1", *app)
        assert any("super user" in each for each in done.runbook["not_copied"])
        assert done.code == int(deleted), done.printed
        assert (f"{READ}: there -> absent" in done.said("block")) is deleted, done.printed
        assert not any("acl" in text for text in done.said("warn"))
