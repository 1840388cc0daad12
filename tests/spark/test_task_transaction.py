"""One transaction per task of a micro-batch: written once, however often Spark runs the task."""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.spark.batch_markers import Marker, MarkerTopic
from odradek.spark.errors import CheckpointMismatch
from odradek.spark.sink_options import sink_options
from odradek.spark.task_transaction import _PRODUCERS, Attempt, TaskTransaction, is_written

MARKERS = MarkerTopic("app.query-markers")


@pytest.fixture
def config(odradek):
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap_servers})
    admin.create_topics([NewTopic("out", 1)])["out"].result()
    yield sink_options({"kafka.bootstrap.servers": odradek.bootstrap_servers, "topic": "out"}).config
    _PRODUCERS.clear()


def attempt(batch, *, task=0, query_id="q", again=True):
    return Attempt(sink="app.query.0", task=task, batch=batch, query_id=query_id, may_be_repeated=again)


def write(config, attempt, *values, finish=True):
    with TaskTransaction(config, MARKERS, attempt) as transaction:
        transaction.send([("out", value.encode(), None) for value in values])
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
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            consumer.close()
            return found
        found.append(message.value().decode())


def fail_in_the_middle(config, attempt):
    with TaskTransaction(config, MARKERS, attempt) as transaction:
        transaction.send([("out", b"lost", None)])
        raise ZeroDivisionError


def forgotten():
    """As in another worker process, or after a restart."""
    _PRODUCERS.clear()


def test_task_that_is_run_again_after_its_commit_writes_nothing(config):
    write(config, attempt(0), "a", "b")
    forgotten()
    write(config, attempt(0), "a", "b")
    assert committed(config) == ["a", "b"]


def test_kept_producer_knows_its_last_micro_batch(config):
    write(config, attempt(0), "a")
    write(config, attempt(0), "a")
    write(config, attempt(1), "b")
    assert committed(config) == ["a", "b"]


def test_attempt_that_failed_before_its_commit_leaves_nothing(config):
    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle(config, attempt(0))
    write(config, attempt(0), "a")
    assert committed(config) == ["a"]


def test_attempt_of_a_worker_that_died_is_aborted_by_the_next_attempt(config):
    write(config, attempt(0), "lost", finish=False)
    dead = list(_PRODUCERS.values())
    forgotten()
    write(config, attempt(0), "a")
    assert committed(config) == ["a"]
    assert dead  # it was alive until here: the broker aborted its transaction, not its end


def test_older_attempt_that_wakes_up_is_fenced(config):
    old = TaskTransaction(config, MARKERS, attempt(0))
    old.send([("out", b"old", None)])
    forgotten()
    write(config, attempt(0), "new")
    with pytest.raises(RuntimeError, match=r"fenced|FENCED|epoch"):
        old.finish()
    assert committed(config) == ["new"]


def test_worker_notices_that_another_one_took_its_transactional_id_before_it_reads_rows(config):
    write(config, attempt(0), "a")
    mine = dict(_PRODUCERS)
    forgotten()
    write(config, attempt(1, again=False), "b")
    _PRODUCERS.clear()
    _PRODUCERS.update(mine)
    write(config, attempt(2, again=False), "c")
    assert committed(config) == ["a", "b", "c"]


def test_tasks_have_transactions_and_markers_of_their_own(config):
    write(config, attempt(0, task=0), "a")
    write(config, attempt(0, task=1), "b")
    forgotten()
    write(config, attempt(0, task=1), "b")
    assert sorted(committed(config)) == ["a", "b"]
    assert len(committed(config, MARKERS.name)) == 2


def test_task_without_records_needs_no_transaction(config):
    with TaskTransaction(config, MARKERS, attempt(0)) as transaction:
        transaction.finish()
    assert not _PRODUCERS


def test_checkpoint_older_than_the_results_is_refused(config):
    write(config, attempt(7), "a")
    forgotten()
    with pytest.raises(CheckpointMismatch, match=r"micro-batch 7.*continues with 3"):
        write(config, attempt(3), "b")
    assert committed(config) == ["a"]


def test_deleted_checkpoint_is_refused(config):
    write(config, attempt(0), "a")
    forgotten()
    with pytest.raises(CheckpointMismatch, match="odradek streams reset"):
        write(config, attempt(0, query_id="another"), "b")
    assert committed(config) == ["a"]


@pytest.mark.parametrize(("batch", "written"), [(3, True), (4, False)])
def test_marker_of_a_micro_batch_covers_that_one_alone(batch, written):
    assert is_written(Marker(batch=3, query_id="q"), attempt(batch)) is written
