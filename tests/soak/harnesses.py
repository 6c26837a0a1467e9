"""The fault harnesses that a soak runs: each is one live test, made longer by its environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Harness:
    """A live test. ``bound`` is the number of seconds after which a run of it is ended and counts as failed.

    ``settings`` are environment variables; a variable that is set already keeps its value.
    """

    name: str
    test: str
    bound: float
    settings: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ("confluent-kafka",)
    """The packages whose versions the ledger keeps."""

    @property
    def file_name(self) -> str:
        return "-".join(re.findall(r"[\w.]+", self.name))


ROLLING = "tests/live/confluent/test_rolling_upgrades.py::"
UPGRADE = ROLLING + "test_a_rolling_upgrade_under_load_loses_and_doubles_nothing"
SPARK = ("confluent-kafka", "pyspark")
PATIENT = {"EOS_BOUND": "180"}
"""A soak goes on beside other work, and a busy machine is no failure."""
LONG = {"EOS_ROUNDS": "10", "EOS_RATE": "250", **PATIENT}
SINK = {"SINK_FAULTS": "16", "SINK_RATE": "300", **PATIENT}

HARNESSES = (
    Harness(
        name="switch, every group protocol",
        test=ROLLING + "test_groups_of_every_protocol_survive_members_and_brokers",
        bound=4500,
        settings=LONG,
    ),
    Harness(
        name="Spark sink",
        test="tests/live/spark/test_sink_faults.py::test_each_row_is_written_once_under_all_faults",
        bound=4500,
        settings=SINK,
        libraries=SPARK,
    ),
    Harness(
        name="Spark sink, one task",
        test="tests/live/spark/test_sink_faults.py::test_one_task_writes_each_row_of_all_shards_once_under_all_faults",
        bound=4500,
        settings=SINK,
        libraries=SPARK,
    ),
    Harness(name="switch, 3.9 to 4.2", test=f"{UPGRADE}[3.9.2-4.2.0]", bound=4500, settings=LONG),
    Harness(
        name="Spark sink, speculation",
        test="tests/live/spark/test_sink_speculation.py::test_a_task_and_its_copy_write_each_row_once",
        bound=1800,
        settings={"SINK_TWINS": "6", **PATIENT},
        libraries=SPARK,
    ),
    Harness(name="switch, 2.4 to 2.8", test=f"{UPGRADE}[2.4.1-2.8.2]", bound=4500, settings=LONG),
    Harness(
        name="relay, clients come and go",
        test="tests/live/relay/test_churn_live.py::test_clients_that_come_and_go_leave_nothing_at_the_relay",
        bound=4500,
        settings={"RELAY_CHURN_MINUTES": "10", "EOS_BOUND": "240"},
        libraries=("starlette", "uvicorn"),
    ),
)
