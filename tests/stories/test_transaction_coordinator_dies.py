"""The coordinator of transactions is killed: in every state of a transaction, also between two of its markers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.p66_list_transactions import ListTransactionsRequest
from odradek.testing import Embedded
from odradek.testing.faults import Fault
from support.cluster_wire import TRANSACTION, ClusterWire
from support.onlooker import create, eventually
from traps.test_transactions import TV2_COMMIT, TV2_END, TV2_PRODUCE, Transactor, committed, committed_offset

pytestmark = [pytest.mark.stories, pytest.mark.timeout(300)]

TOPIC, GROUP = "t", "copiers"
PARTITIONS = range(3)
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
# What a client retries.
RETRIED = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)


class Client:
    """A producer of one of the two protocols. It retries as clients do."""

    def __init__(self, wire: ClusterWire, state: str, *, is_new: bool) -> None:
        self.state = state
        self.is_new = is_new
        self.transactor = Transactor(wire, f"{state}-{'new' if is_new else 'old'}")
        # Its last commit or abort, to repeat it.
        self._ended: tuple[int, bool] | None = None

    @property
    def id(self) -> str:
        return self.transactor.id

    def value(self, what: str) -> bytes:
        return f"{self.id} {what}".encode()

    def write(self, what: str) -> None:
        """One record in each partition."""
        if not self.is_new:
            self._until_served(lambda: max(self.transactor.add(TOPIC, *PARTITIONS)))
        for partition in PARTITIONS:
            version = TV2_PRODUCE if self.is_new else 11
            self._until_served(
                lambda partition=partition, version=version: self.transactor.produce(
                    TOPIC, self.value(what), version=version, partition=partition
                )
            )

    def commit_offset(self, offset: int) -> None:
        self._until_served(lambda: self.transactor.commit_offset(GROUP, TOPIC, offset, version=TV2_COMMIT))

    def end(self, *, commits: bool) -> None:
        self._ended = self.transactor.epoch, commits
        self._until_served(lambda: self.transactor.end(commits=commits, version=TV2_END if self.is_new else 4))

    def end_again(self) -> None:
        """As after an answer that was lost."""
        assert self._ended is not None
        epoch, commits = self._ended
        version = TV2_END if self.is_new else 4
        self._until_served(lambda: self.transactor.end(commits=commits, version=version, epoch=epoch))

    def _until_served(self, ask: Callable[[], int]) -> None:
        codes = []

        def is_served() -> bool:
            try:
                codes.append(ask())
            except OSError:
                return False
            return codes[-1] not in RETRIED

        eventually(is_served, f"{self.id} is refused: {codes}")
        assert codes[-1] == 0, ErrorCode(codes[-1]).name


@pytest.fixture
def cluster() -> Iterator[Embedded]:
    settings = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1, "min.insync.replicas": 2}
    with Embedded(brokers=3, config=settings) as cluster:
        yield cluster


def states(wire: ClusterWire) -> dict[str, str]:
    answer = wire.to(wire.coordinator("any", TRANSACTION)).ask(ListTransactionsRequest(), 0)
    return {each.transactional_id: each.transaction_state for each in answer.transaction_states}


def visible(wire: ClusterWire) -> dict[int, list[bytes]]:
    return {partition: sorted(committed(wire, TOPIC, partition)) for partition in PARTITIONS}


def clients_in_every_state(wire: ClusterWire, hold_markers: Callable[[], None]) -> dict[str, Client]:
    clients = {}
    for state in STATES:
        for is_new in (False, True):
            client = Client(wire, state, is_new=is_new)
            clients[client.id] = client
    for state in ("CompleteCommit", "CompleteAbort"):
        for client in [each for each in clients.values() if each.state == state]:
            client.write("before")
            client.end(commits=state == "CompleteCommit")
    eventually(lambda: list(states(wire).values()).count("CompleteAbort") == 2, "no transaction completes")
    eventually(lambda: list(states(wire).values()).count("CompleteCommit") == 2, "no transaction completes")
    hold_markers()
    for client in [each for each in clients.values() if each.state.startswith("Prepare")]:
        client.write("before")
        if client.id == "PrepareCommit-new":
            client.commit_offset(7)
        client.end(commits=client.state == "PrepareCommit")
    # Last, since readers see nothing behind an open transaction.
    for client in [each for each in clients.values() if each.state == "Ongoing"]:
        client.write("before")
    return clients


def test_transactions_in_every_state_go_on_when_their_coordinator_dies(
    cluster: Embedded, tell: Callable[[str], None]
) -> None:
    with ClusterWire(cluster) as wire:
        eventually(lambda: wire.to(1).ask(FindCoordinatorRequest(key="any", key_type=1), 2).error_code == 0, "none")
        killed = wire.coordinator("any", TRANSACTION)
        near, far = (node_id for node_id in (1, 2, 3) if node_id != killed)
        create(cluster, TOPIC, [[killed, near, far], [near, far, killed], [far, killed, near]])

        def hold_markers() -> None:
            refused = Fault("WriteTxnMarkers", None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            cluster.nodes[far].obey("add", fault=refused)

        clients = clients_in_every_state(wire, hold_markers)
        assert states(wire) == {client.id: client.state for client in clients.values()}
        complete = sorted(each.value("before") for each in clients.values() if each.state == "CompleteCommit")
        decided = sorted(each.value("before") for each in clients.values() if each.state == "PrepareCommit") + complete
        marked = {0: sorted(decided), 1: sorted(decided), 2: complete}
        eventually(lambda: visible(wire) == marked, lambda: f"{visible(wire)}, only the last marker should be missing")
        killed_at = time.monotonic()

        cluster.nodes[killed].kill()

        eventually(lambda: wire.coordinator("any", TRANSACTION) != killed, "no other broker coordinates")
        tell(f"killed a transaction coordinator: {time.monotonic() - killed_at:.2f} s until there was another one")
        for transactional_id, state in eventually(lambda: states(wire), "no transactions").items():
            # The new coordinator may lead the partition that lacks its marker: then nothing refuses it.
            expected = clients[transactional_id].state
            assert state in (expected, expected.replace("Prepare", "Complete")), transactional_id
        cluster.calm()
        await_completion(wire, clients)
        go_on(wire, clients)


def await_completion(wire: ClusterWire, clients: dict[str, Client]) -> None:
    completed = {each.id: each.state.replace("Prepare", "Complete") for each in clients.values()}
    eventually(lambda: states(wire) == completed, "the next coordinator does not complete what was decided")
    assert committed_offset(wire, GROUP, TOPIC) == (7, 0)


def go_on(wire: ClusterWire, clients: dict[str, Client]) -> None:
    """Every producer ends its transaction and makes another one."""
    expected: list[bytes] = []
    for client in clients.values():
        if client.state == "Ongoing":
            client.write("after")
            expected.append(client.value("after"))
            client.end(commits=True)
        elif client.state != "Empty":
            client.end_again()
        if client.state in ("Ongoing", "PrepareCommit", "CompleteCommit"):
            expected.append(client.value("before"))
        client.write("next")
        client.end(commits=True)
        expected.append(client.value("next"))
    everywhere: dict[int, Any] = dict.fromkeys(PARTITIONS, sorted(expected))
    eventually(lambda: visible(wire) == everywhere, lambda: f"{visible(wire)} instead of {expected}")
