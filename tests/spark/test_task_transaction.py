"""One transaction per task of a micro-batch: written once, however often and wherever Spark runs the task."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from odradek.client.admin import Admin
from odradek.client.transactions_offered import NoTransactions
from odradek.spark import batch_markers, task_transaction
from odradek.spark.batch_markers import Marker, MarkerTopic, Wanted
from odradek.spark.errors import CheckpointMismatch
from odradek.spark.ownership import Claim
from odradek.spark.sink_options import sink_options
from odradek.spark.task_transaction import TaskTransaction
from odradek.spark.transactional_producer import transactional_config
from odradek.spark.transactional_writer import Attempt, WriterLost, is_written
from odradek.spark.writer_door import Door, ask
from odradek.spark.writers import WRITERS, Writers
from odradek.testing import Embedded
from support.waiting import wait_until

MARKERS = MarkerTopic("app.query-markers")


@pytest.fixture
def config(odradek, monkeypatch):
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap_servers})
    admin.create_topics([NewTopic("out", 1)])["out"].result()
    monkeypatch.setattr(task_transaction, "_REFUSED", {})
    monkeypatch.setattr(task_transaction, "_TOLD", set())
    yield sink_options({"kafka.bootstrap.servers": odradek.bootstrap_servers, "topic": "out"}).config
    WRITERS.forget()


@pytest.fixture
def other():
    """The writers of another worker process."""
    writers = Writers()
    yield writers
    writers.forget()


@pytest.fixture
def held_little(monkeypatch):
    """Tasks with more than two records are written while they run."""
    monkeypatch.setattr(task_transaction, "HELD_RECORDS_MAX", 2)


def attempt(batch, *, task=0, query_id="q", plan=None):
    return Attempt(sink="app.query.0", task=task, batch=batch, query_id=query_id, plan=plan)


def write(config, attempt, *values, finish=True, writers=WRITERS, falls_back=False):
    with TaskTransaction(config, MARKERS, attempt, falls_back=falls_back, writers=writers) as transaction:
        for value in values:
            transaction.send([("out", value.encode(), None)])
        if finish:
            transaction.finish()
    return transaction


def committed(config, topic="out"):
    consumer = Consumer(
        {
            "bootstrap.servers": config["bootstrap.servers"],
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    end = Admin(config["bootstrap.servers"]).end_offsets(topic)[0]
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, position = [], 0
    while position < end:
        message = consumer.poll(30)
        assert message is not None
        position = message.offset()  # of the end, too: what is committed so far may end earlier
        if message.error() is None:
            found.append(message.value().decode())
            position += 1
    consumer.close()
    return found


def fail_in_the_middle(config, attempt, records):
    with TaskTransaction(config, MARKERS, attempt) as transaction:
        transaction.send([("out", b"lost", None)] * records)
        raise ZeroDivisionError


def open_transaction(config, transactional_id, topic, key, value=b'{"batch": 0, "query_id": "q"}'):
    """What a task leaves behind that was killed before its commit."""
    producer = Producer(
        {"bootstrap.servers": config["bootstrap.servers"], "transactional.id": transactional_id, "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value, key, partition=0)
    assert producer.flush(30) == 0
    return producer


def test_task_that_is_run_again_after_its_commit_writes_nothing(config):
    write(config, attempt(0), "a", "b")
    WRITERS.forget()
    write(config, attempt(0), "a", "b")
    assert committed(config) == ["a", "b"]


def test_kept_producer_knows_its_last_micro_batch(config):
    write(config, attempt(0), "a")
    write(config, attempt(0), "a")
    write(config, attempt(1), "b")
    assert committed(config) == ["a", "b"]


def test_owner_of_the_transactional_id_writes_the_tasks_of_other_workers(config, other):
    write(config, attempt(0), "a")
    for batch, value in ((1, "b"), (2, "c")):
        write(config, attempt(batch), value, writers=other)
    write(config, attempt(3), "d")
    assert (WRITERS.count, other.count) == (1, 0)
    assert committed(config) == ["a", "b", "c", "d"]


def test_repeated_task_of_another_worker_writes_nothing(config, other):
    write(config, attempt(0), "a")
    write(config, attempt(0), "a", writers=other)
    assert committed(config) == ["a"]


def test_failure_of_the_owner_is_raised_in_the_worker_that_asked(config, other):
    write(config, attempt(0), "a")
    with pytest.raises(RuntimeError, match=r"not delivered.*out"):
        write(config, attempt(1), "b" * 2_000_000, writers=other)
    write(config, attempt(1), "b", writers=other)
    assert committed(config) == ["a", "b"]


OWNER = """
import sys
from odradek.spark.batch_markers import MarkerTopic
from odradek.spark.task_transaction import TaskTransaction
from odradek.spark.transactional_producer import transactional_config
from odradek.spark.transactional_writer import Attempt

with TaskTransaction(eval(sys.argv[1]), MarkerTopic(sys.argv[2]), eval(sys.argv[3])) as transaction:
    transaction.send([("out", b"a", None)])
    transaction.finish()
print("written", flush=True)
sys.stdin.read()
"""


def test_worker_takes_over_when_the_owner_was_killed(config):
    command = [sys.executable, "-c", OWNER, repr(config), MARKERS.name, repr(attempt(0))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout.readline() == b"written\n"
        write(config, attempt(1), "b")
        assert WRITERS.count == 0  # the owner wrote it
        owner.kill()
    write(config, attempt(1), "b")
    write(config, attempt(2), "c")
    assert WRITERS.count == 1
    assert committed(config) == ["a", "b", "c"]


def test_large_task_is_written_while_it_runs(config, held_little, other):
    write(config, attempt(0), *"abcdefg")
    write(config, attempt(0), *"abcdefg", writers=other)
    write(config, attempt(1), "h", "i", writers=other)
    assert (WRITERS.count, other.count) == (1, 1)
    assert committed(config) == [*"abcdefghi"]


def test_large_task_that_failed_leaves_nothing(config, held_little):
    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle(config, attempt(0), 5)
    write(config, attempt(0), "a")
    assert committed(config) == ["a"]


def test_small_task_that_failed_leaves_nothing(config):
    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle(config, attempt(0), 1)
    assert WRITERS.count == 0
    assert committed(config) == []


def test_transaction_of_a_worker_that_died_is_aborted_by_the_next_attempt(config):
    dead = open_transaction(config, attempt(0).transactional_id, "out", None)
    write(config, attempt(0), "a")
    assert committed(config) == ["a"]
    del dead  # it lived until here: its end did not abort the transaction


def test_older_attempt_of_a_large_task_that_wakes_up_is_fenced(config, held_little, other):
    old = TaskTransaction(config, MARKERS, attempt(0))
    old.send([("out", b"old", None)] * 5)
    other.own(config, MARKERS, attempt(0)).write(attempt(0), [("out", b"new", None)])
    with pytest.raises(WriterLost, match=r"fenced|FENCED|epoch"):
        old.finish()
    assert committed(config) == ["new"]


def test_worker_that_was_fenced_by_another_host_initializes_its_id_again(config):
    write(config, attempt(0), "a")
    elsewhere = Producer(
        {"bootstrap.servers": config["bootstrap.servers"], "transactional.id": "app.query.0.0", "log_level": 0}
    )
    elsewhere.init_transactions(30)
    write(config, attempt(1), "b")
    assert committed(config) == ["a", "b"]


def test_open_transaction_of_a_dead_task_does_not_hide_the_markers_of_others(config, monkeypatch):
    monkeypatch.setattr(batch_markers, "STUCK_AFTER_S", 0.1)
    write(config, attempt(0, task=0), "a")
    dead = open_transaction(config, "app.query.0.1", MARKERS.name, b"app.query.0.1")
    write(config, attempt(1, task=0), "b")
    WRITERS.forget()
    write(config, attempt(1, task=0), "b")
    assert committed(config) == ["a", "b"]
    del dead


def test_tasks_have_transactions_and_markers_of_their_own(config):
    write(config, attempt(0, task=0), "a")
    write(config, attempt(0, task=1), "b")
    WRITERS.forget()
    write(config, attempt(0, task=1), "b")
    assert sorted(committed(config)) == ["a", "b"]
    assert len(committed(config, MARKERS.name)) == 2


def test_task_without_records_needs_no_transaction(config):
    write(config, attempt(0))
    assert WRITERS.count == 0


def test_checkpoint_older_than_the_results_is_refused(config):
    write(config, attempt(7), "a")
    WRITERS.forget()
    with pytest.raises(CheckpointMismatch, match=r"micro-batch 7.*continues with 3"):
        write(config, attempt(3), "b")
    assert committed(config) == ["a"]


def test_checkpoint_one_micro_batch_too_old_is_refused(config):
    write(config, attempt(7, plan="offsets"), "a")
    WRITERS.forget()
    with pytest.raises(CheckpointMismatch, match=r"micro-batch 7.*continues with 7 and other offsets"):
        write(config, attempt(7, plan="more offsets"), "a", "b")


def test_deleted_checkpoint_is_refused(config):
    write(config, attempt(0), "a")
    WRITERS.forget()
    with pytest.raises(CheckpointMismatch, match="odradek streams reset"):
        write(config, attempt(0, query_id="another"), "b")
    assert committed(config) == ["a"]


def test_kept_producer_notices_that_the_application_was_reset(config):
    write(config, attempt(3), "a")
    Admin(config["bootstrap.servers"]).delete_topics([MARKERS.name])
    write(config, attempt(0, query_id="another"), "a")
    assert committed(config) == ["a", "a"]


@pytest.mark.parametrize(("batch", "written"), [(3, True), (4, False)])
def test_marker_of_a_micro_batch_covers_that_one_alone(batch, written):
    assert is_written(Marker(batch=3, query_id="q"), attempt(batch)) is written


def test_open_transaction_of_another_sink_is_left_alone(config, monkeypatch):
    """Its marker may be about to be committed, and does not matter to this sink."""
    monkeypatch.setattr(batch_markers, "STUCK_AFTER_S", 0.1)
    write(config, attempt(0), "a")
    other = open_transaction(config, "another.0", MARKERS.name, b"another.0")
    WRITERS.forget()
    write(config, attempt(0), "a")
    write(config, attempt(1), "b")
    other.commit_transaction(30)
    assert committed(config) == ["a", "b"]


def test_newer_micro_batch_of_the_same_sink_is_not_aborted():
    wanted = Wanted(prefix="app.query.0.", only="app.query.0.0", until=3)
    ids = ("app.query.0.1", "app.query.0.0", "app.query.0.1.1", "another.1")
    assert [wanted.may_abort(each, Marker(batch=3, query_id="q")) for each in ids] == [True, False, False, False]
    assert not wanted.may_abort("app.query.0.1", Marker(batch=4, query_id="q"))


def test_large_task_does_not_use_a_producer_that_was_fenced(config, held_little):
    write(config, attempt(0), "a")
    elsewhere = Producer(
        {"bootstrap.servers": config["bootstrap.servers"], "transactional.id": "app.query.0.0", "log_level": 0}
    )
    elsewhere.init_transactions(30)
    write(config, attempt(1), *"bcdef")
    assert committed(config) == [*"abcdef"]


def test_task_may_write_for_fifteen_minutes(config):
    assert transactional_config(config, "t")["transaction.timeout.ms"] == "900000"


def readable(config, isolation):
    admin, at = AdminClient({"bootstrap.servers": config["bootstrap.servers"]}), TopicPartition("out", 0)
    return admin.list_offsets({at: OffsetSpec.latest()}, isolation_level=isolation)[at].result().offset


def has_ended(config):
    """Whether the records of the transaction are there, and committed or aborted."""
    found = readable(config, IsolationLevel.READ_COMMITTED)
    return found > 0 and found == readable(config, IsolationLevel.READ_UNCOMMITTED)


@pytest.fixture
def hasty():
    """A broker that allows short transactions only, and aborts the others soon."""
    settings = {
        "transaction.max.timeout.ms": "2000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    with Embedded(config=settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("out", 1)])["out"].result()
        yield sink_options({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "out"}).config
        WRITERS.forget()


def test_transaction_time_out_is_lowered_to_what_the_brokers_allow(hasty):
    write(hasty, attempt(0), "a")
    assert committed(hasty) == ["a"]


def test_transaction_time_out_that_was_asked_for_and_is_refused_names_the_remedy(hasty):
    with pytest.raises(WriterLost, match=r"kafka\.transaction\.timeout\.ms to at most transaction\.max\.timeout\.ms"):
        write({**hasty, "transaction.timeout.ms": "3000"}, attempt(0), "a")


def test_transaction_that_was_open_for_too_long_names_the_setting(hasty, held_little):
    transaction = TaskTransaction(hasty, MARKERS, attempt(0))
    transaction.send([("out", b"a", None)] * 5)
    wait_until(lambda: has_ended(hasty))
    with pytest.raises(WriterLost, match=r"open for \d+ s, and kafka\.transaction\.timeout\.ms is 2000"):
        transaction.finish()


def test_task_remembers_that_the_cluster_refuses_transactions(config, odradek, capsys):
    """Asking may take ten seconds."""
    odradek.fail("InitProducerId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", times=1)
    write(config, attempt(0), "a", falls_back=True)
    write(config, attempt(1), "b", falls_back=True)
    assert WRITERS.count == 0
    assert committed(config) == ["a", "b"]
    assert capsys.readouterr().err.count("writes at least once, not exactly once") == 1


def test_topic_of_markers_that_is_forbidden_is_named(config, odradek):
    odradek.fail("CreateTopics", "TOPIC_AUTHORIZATION_FAILED", times=None)
    with pytest.raises(NoTransactions, match=r"app\.query-markers.*Describe, Read and Write.*delivery\.markers"):
        write(config, attempt(0), "a")
    write(config, attempt(0), "a", falls_back=True)
    assert committed(config) == ["a"]


def test_door_that_was_removed_is_replaced(config, other):
    write(config, attempt(0), "a")
    Path(WRITERS._opened().path).unlink()
    write(config, attempt(0, task=1), "b")
    write(config, attempt(1, task=1), "c", writers=other)
    assert (WRITERS.count, other.count) == (2, 0)


def test_door_stays_open_when_a_connection_cannot_be_accepted():
    door = Door(lambda request: None)
    try:
        listening, refusing = door._socket, RefusingOnce(door._socket)
        door._socket = refusing
        ask_nothing(door)  # wakes the accept of the real socket
        ask_nothing(door)
        assert refusing.has_refused
        assert door.is_open
    finally:
        door._socket = listening
        door.close()


class RefusingOnce:
    """A socket of a process with too many open files."""

    def __init__(self, listening):
        self._listening, self.has_refused = listening, False

    def fileno(self):
        return self._listening.fileno()

    def accept(self):
        if not self.has_refused:
            self.has_refused = True
            raise OSError(errno.EMFILE, "too many open files")
        return self._listening.accept()


def ask_nothing(door):
    ask(Claim("token", door.path), "key", attempt(0), [])
