"""`odradek cluster` against a single broker, missing brokers, and brokers that send malformed answers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from odradek.cli.asking import answer
from odradek.cli.main import main
from odradek.cli.remote import REQUEST_TIMEOUT_S
from odradek.client.wire import Late
from odradek.protocol.headers import response_frame
from odradek.protocol.messages.p43_elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from odradek.protocol.messages.p45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from odradek.protocol.messages.p46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from odradek.protocol.messages.p55_describe_quorum import (
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    ReplicaState,
)
from odradek.protocol.schema import Message
from odradek.testing import Embedded


def run(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["cluster", *arguments], env={"ODRADEK_BOOTSTRAP": bootstrap})


class Canned:
    """A server that answers the first request of each connection with a fixed reply, and keeps the request."""

    def __init__(self, reply: bytes) -> None:
        self._reply = reply
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.asked = b""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self.asked = connection.recv(65536)
                connection.sendall(self._reply)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def answering(response: Message | bytes, version: int = 0) -> Iterator[Canned]:
    if isinstance(response, Message):
        response = response_frame(response.KEY, version, 1, response.encode(version))
    canned = Canned(response)
    thread = threading.Thread(target=canned.serve)
    thread.start()
    yield canned
    canned.close()
    thread.join()


def quorum_response(**partition: object) -> DescribeQuorumResponse:
    data = DescribeQuorumResponsePartitionData(**partition)
    return DescribeQuorumResponse(
        error_message=None,
        topics=[DescribeQuorumResponseTopicData(topic_name="__cluster_metadata", partitions=[data])],
    )


def test_the_quorum_as_a_table() -> None:
    response = quorum_response(
        leader_id=2,
        leader_epoch=7,
        high_watermark=90,
        current_voters=[
            ReplicaState(replica_id=1, log_end_offset=90, last_fetch_timestamp=5_000),
            ReplicaState(replica_id=2, log_end_offset=100, last_fetch_timestamp=5_250),
            ReplicaState(replica_id=3, log_end_offset=20, last_fetch_timestamp=-1),
        ],
        observers=[ReplicaState(replica_id=4, log_end_offset=100, last_fetch_timestamp=5_250)],
    )
    with answering(response, 2) as broker:
        done = run(broker.bootstrap, "quorum")
    assert done.exit_code == 0, done.output
    assert [line.split() for line in done.output.splitlines()] == [
        ["epoch", "7,", "high", "watermark", "90"],
        ["NODE", "ROLE", "DIRECTORY", "END", "LAG", "SILENT_MS"],
        ["1", "voter", "AAAAAAAAAAAAAAAAAAAAAA", "90", "10", "250"],
        ["2", "leader", "AAAAAAAAAAAAAAAAAAAAAA", "100", "0", "0"],
        ["3", "voter", "AAAAAAAAAAAAAAAAAAAAAA", "20", "80", "-"],
        ["4", "observer", "AAAAAAAAAAAAAAAAAAAAAA", "100", "0", "0"],
    ]


def test_a_quorum_without_a_leader_is_reported() -> None:
    with answering(quorum_response(error_code=6, error_message=None), 2) as broker:
        done = run(broker.bootstrap, "quorum")
    assert done.exit_code == 1
    assert "the metadata log has no leader: NOT_LEADER_OR_FOLLOWER" in done.output


def test_reassign_sends_the_moves_and_reports_refusals() -> None:
    refusal = ReassignablePartitionResponse(partition_index=1, error_code=39, error_message="no broker 9")
    response = AlterPartitionReassignmentsResponse(
        responses=[
            ReassignableTopicResponse(name="t", partitions=[ReassignablePartitionResponse(partition_index=0), refusal])
        ]
    )
    with answering(response, 1) as broker:
        done = run(broker.bootstrap, "reassign", "t:0=2,3", "t:1=9", "--cancel", "u:5")
        asked = AlterPartitionReassignmentsRequest.decode(broker.asked, 1, 4 + 8 + 2 + len("odradek-cli") + 1)
    assert done.exit_code == 1
    assert done.stdout == "u-5 keeps its replicas: the move is cancelled\nt-0 moves to 2,3\n"
    assert "t-1: no broker 9 (INVALID_REPLICA_ASSIGNMENT)" in done.stderr
    assert [(topic.name, [(p.partition_index, p.replicas) for p in topic.partitions]) for topic in asked.topics] == [
        ("u", [(5, None)]),
        ("t", [(0, [2, 3]), (1, [9])]),
    ]


def test_reassign_without_arguments_lists_moving_partitions() -> None:
    moving = OngoingPartitionReassignment(
        partition_index=3, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1]
    )
    response = ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment(name="t", partitions=[moving])])
    with answering(response) as broker:
        done = run(broker.bootstrap, "reassign")
    assert done.stdout.splitlines()[1].split() == ["t", "3", "1,2,3", "3", "1"]
    with answering(ListPartitionReassignmentsResponse()) as broker:
        assert "nothing is moving" in run(broker.bootstrap, "reassign").output


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (b"", 1, "it may not support this request"),
        (b"\0\0\0\6\0\0\0\1\0\7", 1, "sent a malformed answer"),
        (b"\7\0\0\0", 1, "announces a reply"),
    ],
)
def test_a_malformed_answer_is_reported(reply: bytes, code: int, said: str) -> None:
    with answering(reply) as broker:
        done = run(broker.bootstrap, "reassign")
    assert done.exit_code == code
    assert said in done.output


def test_an_answer_is_not_awaited_beyond_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where, request = f"127.0.0.1:{silent.getsockname()[1]}", ListPartitionReassignmentsRequest()
        began = time.monotonic()
        with pytest.raises(Late):
            answer(where, request, 0, ListPartitionReassignmentsResponse, within_s=0.1)
        assert time.monotonic() - began < REQUEST_TIMEOUT_S


def test_the_first_broker_that_answers_is_enough() -> None:
    with answering(ListPartitionReassignmentsResponse()) as broker:
        assert run(f"127.0.0.1:1,{broker.bootstrap}", "reassign").exit_code == 0
        with answering(b"") as rude:
            assert run(f"{rude.bootstrap},{broker.bootstrap}", "reassign").exit_code == 0
            assert "without an answer" in run(f"127.0.0.1:1,{rude.bootstrap}", "reassign").stderr
    assert run("127.0.0.1:1,127.0.0.1:2", "reassign").exit_code == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reassign", "t=1"], "TOPIC:PARTITION"),
        (["reassign", "t:0"], "=BROKER"),
        (["reassign", "t:0=a"], "=BROKER"),
        (["elect", "t"], "TOPIC:PARTITION"),
        (["elect", "--unclean"], "name the partitions"),
    ],
)
def test_invalid_arguments_are_refused(arguments: list[str], said: str) -> None:
    done = run("127.0.0.1:1", *arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_a_single_broker_is_a_cluster_of_one(odradek: Embedded) -> None:
    CliRunner().invoke(main, ["topic", "create", "t", "-p", "2", "-b", odradek.bootstrap_servers])
    assert run(odradek.bootstrap_servers, "health").output == (
        "healthy: 1 of 1 brokers alive, 1 of 1 voters following, 2 partitions with a leader and all replicas in sync\n"
    )
    assert "metadata led by node 1, 1 voting" in run(odradek.bootstrap_servers, "info").output


def test_elections_of_internal_partitions_are_counted_by_topic() -> None:
    refused = PartitionResult(partition_id=3, error_code=80, error_message="its replica is down")
    results = [
        ReplicaElectionResult(topic="orders", partition_result=[PartitionResult(partition_id=2)]),
        ReplicaElectionResult(
            topic="__consumer_offsets", partition_result=[*(PartitionResult(partition_id=n) for n in range(3)), refused]
        ),
    ]
    with answering(ElectLeadersResponse(replica_election_results=results), 2) as broker:
        done = run(broker.bootstrap, "elect")
    assert done.stdout == "orders-2 has a new leader\n3 partitions have a new leader: __consumer_offsets\n"
    assert done.stderr == "Error: __consumer_offsets-3: its replica is down (PREFERRED_LEADER_NOT_AVAILABLE)\n"


def test_elections_on_a_single_broker(odradek: Embedded) -> None:
    CliRunner().invoke(main, ["topic", "create", "t", "-p", "2", "-b", odradek.bootstrap_servers])
    assert run(odradek.bootstrap_servers, "elect", "t:1").output == "t-1 needs no election\n"
    assert "by its preferred replica already" in run(odradek.bootstrap_servers, "elect").output
    nowhere = run(odradek.bootstrap_servers, "elect", "nowhere:0")
    assert nowhere.exit_code == 1
    assert "nowhere-0: " in nowhere.output
