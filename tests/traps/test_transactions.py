"""Traps T55 to T59: transactions on the wire, in every version that clients send."""

from __future__ import annotations

import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.batch import TRANSACTIONAL, iter_batches, iter_records
from odradek.protocol.messages.p02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.p09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.p22_init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.p24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.p25_add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.p26_end_txn import EndTxnRequest
from odradek.protocol.messages.p28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.messages.p61_describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.p65_describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.p66_list_transactions import ListTransactionsRequest
from support.waiting import wait_until
from traps.wire import Wire, batch, records_of

READ_COMMITTED = 1
LATEST = -1
TV2_PRODUCE, TV2_END, TV2_COMMIT = 12, 5, 5


class Transactor:
    """A transactional producer that speaks the versions that the test names."""

    def __init__(self, wire: Wire, transactional_id: str, *, init: int = 4) -> None:
        self.wire = wire
        self.id = transactional_id
        found = wire.ask(FindCoordinatorRequest(key=transactional_id, key_type=1), 2)
        assert found.error_code == 0
        self.sequences: dict[tuple[str, int], int] = {}
        assert self.init(init).error_code == 0

    def init(self, version: int = 4, **more):
        request = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=60_000, **more)
        answer = _retried(lambda: self.wire.ask(request, version), lambda answer: answer.error_code)
        if not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer

    def add(self, topic: str, *partitions: int, version: int = 3) -> list[int]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        [result] = self.wire.ask(request, version).results_by_topic_v3_and_below
        return [partition.partition_error_code for partition in result.results_by_partition]

    def produce(
        self, topic: str, *values: bytes, version: int = 9, partition: int = 0, epoch: int | None = None
    ) -> int:
        place = topic, partition
        sequence = self.sequences.get(place, 0)
        data = batch(
            *values,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL,
        )
        answer = self.wire.produce(topic, data, version=version, partition=partition, transactional_id=self.id)
        if not answer.error_code:
            self.sequences[place] = sequence + len(values)
        return answer.error_code

    def end(self, *, commits: bool = True, version: int = 4, epoch: int | None = None) -> int:
        request = EndTxnRequest(
            transactional_id=self.id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commits,
        )
        answer = self.wire.ask(request, version)
        if version >= TV2_END and not answer.error_code:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return answer.error_code

    def commit_offset(self, group: str, topic: str, offset: int, *, version: int, **more) -> int:
        key = {"name": topic} if version < 6 else {"topic_id": self.wire.topic_id(topic)}
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(partitions=[partition], **key)],
            **more,
        )
        return self.wire.ask(request, version).topics[0].partitions[0].error_code


def _retried(ask, code_of):
    """As every client does while the previous transaction is being completed."""
    answers = []

    def is_answered() -> bool:
        answers.append(ask())
        return code_of(answers[-1]) != ErrorCode.CONCURRENT_TRANSACTIONS

    wait_until(is_answered, "the end of the previous transaction")
    return answers[-1]


def committed(wire: Wire, topic: str, partition: int = 0) -> list[bytes]:
    """What read_committed sees, without records of aborted transactions, as a client filters them."""
    answer = wire.fetch(topic, {partition: 0}, isolation_level=READ_COMMITTED)[partition]
    aborted = {(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()}
    values, skipped = [], set()
    for found in iter_batches(answer.records or b""):
        header = found.header
        if header.is_control:
            skipped.discard(header.producer_id)
        elif header.is_transactional:
            skipped |= {pid for pid, first in aborted if pid == header.producer_id and first <= header.base_offset}
            aborted = {each for each in aborted if each[1] > header.base_offset or each[0] != header.producer_id}
            if header.producer_id not in skipped:
                values += [record.value for record in iter_records(found.data)]
        else:
            values += [record.value for record in iter_records(found.data)]
    return values


def eventually(check, expected) -> None:
    """Markers are written after the answer to EndTxn."""
    wait_until(lambda: check() == expected, lambda: f"{check()} instead of {expected}")


def committed_offset(wire: Wire, group: str, topic: str, *, stable: bool = True) -> tuple[int, int]:
    asked = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    )
    answer = wire.ask(OffsetFetchRequest(groups=[asked], require_stable=stable), 8)
    partition = answer.groups[0].topics[0].partitions[0]
    return partition.committed_offset, partition.error_code


@pytest.fixture
def transactor(wire, name):
    return Transactor(wire, f"{name}-id")


@pytest.fixture
def group(wire, name):
    assert wire.ask(FindCoordinatorRequest(key=f"{name}-group", key_type=0), 2).error_code == 0
    return f"{name}-group"


# Every version.


@pytest.mark.parametrize(
    ("init", "add", "produce", "end"),
    [(0, 0, 3, 0), (1, 1, 7, 1), (2, 2, 8, 2), (3, 3, 9, 3), (4, 3, 10, 4), (5, 3, 11, 4)],
)
def test_t55_a_transaction_in_the_versions_of_older_clients(wire, topic, name, init, add, produce, end):
    transactor = Transactor(wire, f"{name}-id", init=init)
    assert transactor.add(topic, 0, version=add) == [0]
    assert transactor.produce(topic, b"a", b"b", version=produce) == 0
    assert committed(wire, topic) == []
    assert transactor.end(version=end) == 0
    eventually(lambda: committed(wire, topic), [b"a", b"b"])


@pytest.mark.parametrize("produce", [12, 13])
def test_t57_partitions_join_by_their_first_batch_and_each_transaction_has_its_epoch(wire, topic, transactor, produce):
    for turn in range(3):
        epoch = transactor.epoch
        value = b"%d" % turn
        assert _retried(lambda value=value: transactor.produce(topic, value, version=produce), int) == 0
        assert transactor.end(version=TV2_END, commits=turn != 1) == 0
        assert transactor.epoch == epoch + 1
    eventually(lambda: committed(wire, topic), [b"0", b"2"])


@pytest.mark.parametrize("version", range(7))
def test_t55_offsets_in_a_transaction(wire, topic, transactor, group, version):
    if version < TV2_COMMIT:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactor.id,
            group_id=group,
            producer_id=transactor.producer_id,
            producer_epoch=transactor.epoch,
        )
        assert wire.ask(request, min(version, 4)).error_code == 0
    assert transactor.commit_offset(group, topic, 7, version=version) == 0
    assert committed_offset(wire, group, topic) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert committed_offset(wire, group, topic, stable=False) == (-1, 0)
    assert transactor.end(version=TV2_END if version >= TV2_COMMIT else 3) == 0
    eventually(lambda: committed_offset(wire, group, topic), (7, 0))


def test_offsets_of_an_aborted_transaction_are_dropped(wire, topic, transactor, group):
    assert transactor.commit_offset(group, topic, 7, version=5) == 0
    assert transactor.end(version=TV2_END, commits=False) == 0
    eventually(lambda: committed_offset(wire, group, topic), (-1, 0))


# Errors by version.


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)])
def test_t56_a_replaced_producer_in_init_producer_id(wire, transactor, version, code):
    old = transactor.producer_id, transactor.epoch
    transactor.init()
    transactor.init()
    assert transactor.init(version, producer_id=old[0], producer_epoch=old[1]).error_code == code


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_t56_a_replaced_producer_in_the_other_requests(wire, topic, transactor, group, version, code):
    transactor.init()
    transactor.epoch -= 1
    assert transactor.add(topic, 0, version=version) == [code]
    assert transactor.end(version=version) == code
    request = AddOffsetsToTxnRequest(
        transactional_id=transactor.id,
        group_id=group,
        producer_id=transactor.producer_id,
        producer_epoch=transactor.epoch,
    )
    assert wire.ask(request, version).error_code == code
    assert transactor.produce(topic, b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert transactor.commit_offset(group, topic, 1, version=3) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("version", "code"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_t56_a_partition_that_was_not_added(wire, topic, transactor, version, code):
    assert transactor.produce(topic, b"a", version=version) == code
    assert committed(wire, topic) == []


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_t58_a_timeout_above_the_maximum_is_refused(wire, transactor, timeout_ms):
    request = InitProducerIdRequest(transactional_id=transactor.id, transaction_timeout_ms=timeout_ms)
    assert wire.ask(request, 4).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_t59_a_marker_takes_an_offset(wire, topic, transactor):
    transactor.add(topic, 0)
    transactor.produce(topic, b"a", b"b")
    transactor.end()
    partition = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=[ListOffsetsTopic(name=topic, partitions=[partition])],
    )
    eventually(lambda: wire.ask(request, 5).topics[0].partitions[0].offset, 3)


def test_one_unknown_partition_keeps_all_from_joining(wire, topic, transactor):
    codes = transactor.add(topic, 0, 9)
    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert transactor.add("__consumer_offsets", 0) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert transactor.end(version=3) == ErrorCode.INVALID_TXN_STATE


# Hanging transactions.


@pytest.mark.parametrize("version", [9, 11])
def test_a_batch_that_comes_after_the_end_of_its_transaction_begins_no_new_one(wire, topic, transactor, version):
    transactor.add(topic, 0)
    assert transactor.produce(topic, b"in time", version=version) == 0
    assert transactor.end(commits=False) == 0
    eventually(lambda: state_of(transactor), "CompleteAbort")
    late = ErrorCode.INVALID_TXN_STATE if version < 11 else ErrorCode.TRANSACTION_ABORTABLE
    assert transactor.produce(topic, b"late", version=version) == late
    wire.produce(topic, batch(b"after it"))
    assert committed(wire, topic) == [b"after it"]


def state_of(transactor: Transactor) -> str:
    request = DescribeTransactionsRequest(transactional_ids=[transactor.id])
    return transactor.wire.ask(request, 0).transaction_states[0].transaction_state


def test_with_epochs_per_transaction_a_late_batch_is_fenced(wire, topic, transactor):
    old = transactor.epoch
    assert transactor.produce(topic, b"in time", version=TV2_PRODUCE) == 0
    assert transactor.end(version=TV2_END) == 0
    eventually(lambda: committed(wire, topic), [b"in time"])
    assert transactor.produce(topic, b"late", version=TV2_PRODUCE, epoch=old) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert transactor.end(version=TV2_END, epoch=old) == 0, "a retry"
    assert transactor.produce(topic, b"next", version=TV2_PRODUCE) == 0
    assert transactor.end(version=TV2_END, commits=False, epoch=old) == ErrorCode.PRODUCER_FENCED
    assert transactor.end(version=TV2_END) == 0
    eventually(lambda: committed(wire, topic), [b"in time", b"next"])


# What brokers ask each other.


def test_leaders_ask_for_several_transactions_at_once(wire, topic, transactor, name):
    other = Transactor(wire, f"{name}-other")
    transactor.add(topic, 0)

    def asked(who: Transactor, epoch: int) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=who.id,
            producer_id=who.producer_id,
            producer_epoch=epoch,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )

    transactions = [asked(transactor, transactor.epoch), asked(other, other.epoch), asked(transactor, 99)]
    for version in (4, 5):
        results = wire.ask(AddPartitionsToTxnRequest(transactions=transactions), version).results_by_transaction
        assert [each.transactional_id for each in results] == [transactor.id, other.id, transactor.id]
        codes = [each.topic_results[0].results_by_partition[0].partition_error_code for each in results]
        assert codes == [0, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.PRODUCER_FENCED]


# Tools.


def test_describe_and_list_transactions(wire, topic, transactor):
    def described():
        return wire.ask(DescribeTransactionsRequest(transactional_ids=[transactor.id, "unknown"]), 0).transaction_states

    first, unknown = described()
    assert (first.transaction_state, first.producer_id, first.producer_epoch) == ("Empty", transactor.producer_id, 0)
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    transactor.add(topic, 0)
    first, _ = described()
    assert (first.transaction_state, first.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert [(each.topic, each.partitions) for each in first.topics] == [(topic, [0])]
    assert first.transaction_start_time_ms > 0

    def listed(version: int, **filters) -> list[str]:
        answer = wire.ask(ListTransactionsRequest(**filters), version)
        assert answer.error_code == 0
        return [each.transactional_id for each in answer.transaction_states if each.transactional_id == transactor.id]

    assert listed(0) == [transactor.id]
    assert listed(0, state_filters=["Ongoing"], producer_id_filters=[transactor.producer_id]) == [transactor.id]
    assert listed(0, state_filters=["Empty"]) == []
    assert listed(0, producer_id_filters=[1 << 40]) == []
    assert listed(1, duration_filter=3_600_000) == []
    assert listed(1, duration_filter=0) == [transactor.id]
    assert listed(2, transactional_id_pattern=f"{transactor.id[:4]}.*") == [transactor.id]
    assert listed(2, transactional_id_pattern=transactor.id[:4]) == [], "the whole id must match"
    answer = wire.ask(ListTransactionsRequest(state_filters=["Wonderful"]), 0)
    assert (answer.unknown_state_filters, answer.transaction_states) == (["Wonderful"], [])


def test_an_invalid_pattern_is_refused(wire, transactor):
    answer = wire.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_open_transaction_is_in_describe_producers(wire, topic, transactor):
    transactor.add(topic, 0)
    transactor.produce(topic, b"a")
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    [producer] = wire.ask(request, 0).topics[0].partitions[0].active_producers
    assert (producer.producer_id, producer.current_txn_start_offset) == (transactor.producer_id, 0)
    assert records_of(wire.fetch(topic, {0: 0})[0].records)[0].value == b"a", "read_uncommitted sees it"
