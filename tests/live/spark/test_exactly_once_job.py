"""The example of an exactly-once Spark job, run as an operator runs it."""

import contextlib
import signal
import sys
import sysconfig
import venv
from functools import partial
from pathlib import Path

import psutil
import pyspark
import pytest
from confluent_kafka import Producer
from doc_pages import PYTHON, ROOT
from eos.ledger import Ledger
from eos.pipes import BOUND, Pipe
from java_stores import java_client
from streams.sessions import class_path
from topics import committed_values
from waiting import eventually

from featuregate.testing import LocalKafka
from featuregate.testing.local_kafka.processes import ChildProcess, ProcessGroup

pytestmark = [pytest.mark.proof("sink"), pytest.mark.live, pytest.mark.slow]

JOB = ROOT / "examples/spark_job/exactly_once.py"


def settings() -> dict[str, str]:
    """Return the settings of a Spark with two cores and the Kafka connector."""
    return {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": class_path(),
    }


def command(*arguments: str, workers: str = sys.executable) -> list[str]:
    options = " ".join(f"--conf '{name}={value}'" for name, value in settings().items())
    environment = {
        "PYSPARK_PYTHON": workers,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell",
    }
    return ["env", *[f"{name}={value}" for name, value in environment.items()], sys.executable, str(JOB), *arguments]


def submitted(*arguments: str, job: Path = JOB) -> list[str]:
    """Run the job with ``spark-submit``: the JVM is the parent, and the Python driver is its child."""
    home = Path(pyspark.__file__).parent
    told = [part for name, value in settings().items() for part in ("--conf", f"{name}={value}")]
    environment = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home)}
    given = [f"{name}={value}" for name, value in environment.items()]
    return ["env", *given, str(home / "bin" / "spark-submit"), *told, str(job), *arguments]


def end_at_once(job: ChildProcess) -> None:
    everybody = psutil.Process(job.pid).children(recursive=True)
    for one in everybody:
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker may end by itself meanwhile
            one.kill()
    job.kill()
    psutil.wait_procs(everybody, BOUND)


def test_the_job_continues_after_a_kill_and_ends_at_a_signal(kafka: LocalKafka, tmp_path: Path) -> None:
    """The job is killed, started again and stopped: each record is there once, and the exit code is 0."""
    pipe = Pipe.on(kafka, "job", partitions=3)
    arguments = ["--bootstrap", pipe.bootstrap, "--input", pipe.source, "--output", pipe.sink, "--trigger-ms", "0"]
    arguments += ["--checkpoint", str(tmp_path / "checkpoint"), "--query", pipe.group, "--max-per-batch", "500"]
    family = ProcessGroup("job")
    try:
        with Ledger(pipe) as ledger:
            ledger.feed_now(6000)
            first = family.start(command(*arguments), log=family.folder / "first.log")
            ledger.wait_for(1500, 2 * BOUND)
            end_at_once(first)
            second = family.start(command(*arguments), log=family.folder / "second.log")
            balance = ledger.balance(2 * BOUND)
            second.terminate()
            assert second.wait(BOUND), second.last_lines(40)
            assert second.exit_code == 0, second.last_lines(40)
        assert balance.exactly_once, balance
    finally:
        family.close()


def test_the_job_copies_on_a_cluster_that_wants_tls_and_sasl(tmp_path: Path) -> None:
    """One file of Java's properties leads its source, its session and its sink to the same brokers."""
    with LocalKafka("4.2.0", security="SASL_SSL", sasl_mechanism="SCRAM-SHA-512") as kafka:
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(kafka.client_config()["ssl.ca.location"])}
        config = tmp_path / "client.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in java_client(kafka, trust).items()))
        pipe = Pipe.on(kafka, "secured-job", partitions=2)
        arguments = ["--bootstrap", pipe.bootstrap, "--input", pipe.source, "--output", pipe.sink, "--trigger-ms", "0"]
        arguments += ["--checkpoint", str(tmp_path / "checkpoint"), "--query", pipe.group]
        family = ProcessGroup("job")
        try:
            with Ledger(pipe) as ledger:
                ledger.feed_now(100)
                job = command(*arguments, "--command-config", str(config))
                family.start(job, log=family.folder / "job.log")
                assert ledger.balance(4 * BOUND).exactly_once
        finally:
            family.close()


def processes_of(job: ChildProcess, whom: str) -> list[psutil.Process]:
    """Return the processes of a submitted job that a supervisor may signal."""
    jvm = psutil.Process(job.pid)
    children = jvm.children(recursive=True)
    # The JVM has the script on its command line, too, and so has what it forks, until that runs another program.
    (driver,) = (child for child in children if command_line(child)[1:2] == [str(JOB)])
    return {"jvm": [jvm], "driver": [driver], "everybody": [jvm, *children]}[whom]


def command_line(process: psutil.Process) -> list[str]:
    """Return the command line, which is empty where the process has ended meanwhile, as workers do at any time."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # a zombie, too
        return []


def test_a_submitted_job_ends_with_0_wherever_a_signal_arrives(kafka: LocalKafka, tmp_path: Path) -> None:
    """At the JVM, as from Kubernetes; at the driver; at all processes, as from systemd. The next run continues."""
    pipe = Pipe.on(kafka, "submitted", partitions=2)
    arguments = ["--bootstrap", pipe.bootstrap, "--input", pipe.source, "--output", pipe.sink, "--trigger-ms", "0"]
    arguments += ["--checkpoint", str(tmp_path / "checkpoint"), "--query", pipe.group, "--max-per-batch", "500"]
    family = ProcessGroup("job")
    stops = [("jvm", signal.SIGTERM), ("driver", signal.SIGTERM), ("everybody", signal.SIGTERM), ("jvm", signal.SIGINT)]
    try:
        with Ledger(pipe) as ledger:
            ledger.feed_now(20_000)
            for whom, number in stops:
                job = family.start(submitted(*arguments), log=family.folder / f"{whom}-{number.name}.log")
                ledger.wait_for(ledger.different + 1, 4 * BOUND)
                for each in processes_of(job, whom):
                    with contextlib.suppress(psutil.NoSuchProcess):  # a worker, which may end at any time
                        each.send_signal(number)
                assert job.wait(BOUND), job.last_lines(40)
                assert job.exit_code == 0, (whom, number, job.last_lines(40))
            last = family.start(submitted(*arguments), log=family.folder / "last.log")
            balance = ledger.balance(4 * BOUND)
            last.terminate()
            assert last.wait(BOUND), last.last_lines(40)
        assert balance.exactly_once, balance
    finally:
        family.close()


def test_the_complete_job_of_the_page_copies_and_ends_with_0(kafka: LocalKafka, tmp_path: Path) -> None:
    """As a reader runs it, with other names of topics and another folder."""
    pipe = Pipe.on(kafka, "page", partitions=2)
    page = (ROOT / "docs/how-to/write-exactly-once-from-spark.md").read_text()
    (code,) = (block["code"] for block in PYTHON.finditer(page) if "__main__" in block["code"])
    named = {"localhost:9092": pipe.bootstrap, '"orders"': f'"{pipe.source}"', '"orders-out"': f'"{pipe.sink}"'}
    for ours, theirs in {**named, "/var/lib": str(tmp_path)}.items():
        assert ours in code
        code = code.replace(ours, theirs)
    (tmp_path / "copies.py").write_text(code)
    values = sorted(f"order {number}".encode() for number in range(200))
    producer = Producer(kafka.client_config())
    for value in values:
        producer.produce(pipe.source, value)
    assert producer.flush(BOUND) == 0
    family = ProcessGroup("job")
    try:
        job = family.start(submitted(job=tmp_path / "copies.py"), log=family.folder / "job.log")
        read = partial(committed_values, kafka.client_config(), pipe.sink, partitions=2)
        eventually(lambda: len(read()) >= len(values), "all records are copied")
        job.terminate()
        assert job.wait(BOUND), job.last_lines(40)
        assert job.exit_code == 0, job.last_lines(40)
        assert read() == values
    finally:
        family.close()


def message_of(job: ChildProcess) -> str:
    assert job.wait(4 * BOUND), job.last_lines(40)
    assert job.exit_code == 1, job.last_lines(40)
    (line,) = (line for line in job.log.read_text().splitlines() if line.startswith("exactly_once: "))
    return line


def test_an_error_is_one_line(tmp_path: Path, kafka: LocalKafka) -> None:
    """The topic does not exist, and the exit code is 1."""
    pipe = Pipe.on(kafka, "nowhere")
    family = ProcessGroup("job")
    try:
        arguments = ["--bootstrap", pipe.bootstrap, "--input", pipe.source, "--output", "nowhere", "--query", "lost"]
        log = family.folder / "job.log"
        with Ledger(pipe) as ledger:
            ledger.feed_now(1)
            job = family.start(command(*arguments, "--checkpoint", str(tmp_path / "checkpoint")), log=log)
            assert message_of(job).startswith("exactly_once: topic 'nowhere' does not exist, ")
    finally:
        family.close()


@pytest.fixture
def without_featuregate(tmp_path: Path) -> Path:
    """Make a Python with all packages of this one except featuregate."""
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "featuregate" not in each.name and each.suffix != ".pth":
            (packages / each.name).symlink_to(each)
    # PYTHONPATH, which workers inherit, may name the working copy that is tested.
    (packages / "no_working_copy.pth").write_text(
        "import os, sys; "
        "sys.path[:] = [each for each in sys.path if not {'featuregate', 'featuregate_spark'} & "
        "{*(os.listdir(each) if os.path.isdir(each) else ())}]\n"
    )
    return tmp_path / "venv" / "bin" / "python"


def test_workers_without_featuregate_are_one_line(tmp_path: Path, kafka: LocalKafka, without_featuregate: Path) -> None:
    """The error names the Python of the workers, what it lacks, and the variable that sets it."""
    pipe = Pipe.on(kafka, "other-python")
    family = ProcessGroup("job")
    try:
        arguments = [
            "--bootstrap",
            pipe.bootstrap,
            "--input",
            pipe.source,
            "--output",
            pipe.sink,
            "--query",
            pipe.group,
        ]
        arguments += ["--checkpoint", str(tmp_path / "checkpoint")]
        with Ledger(pipe) as ledger:
            ledger.feed_now(1)
            job = family.start(command(*arguments, workers=str(without_featuregate)), log=family.folder / "job.log")
            line = message_of(job)
        assert f"Spark's workers run '{without_featuregate}' (PYSPARK_PYTHON), which has no module 'featureg" in line
        assert "set PYSPARK_PYTHON to a Python with the version and packages of this driver" in line
    finally:
        family.close()
