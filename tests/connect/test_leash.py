"""The leash of a task: leases that expire, orders that arrive, runs that are not expected; no write without a lease."""

from __future__ import annotations

import gc
import socket
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from odradek.connect.common_options import SourceOptions
from odradek.connect.connectors.files_source import FilesSource, FilesSourceConfig
from odradek.connect.conversion import Conversion, Encoded
from odradek.connect.service.leashes import Leashes
from odradek.connect.tasks.leash import LEASE_S, LeaseLost, Leash
from odradek.connect.tasks.source_task import SourceRun
from odradek.connect.tasks.spec import Ending, TaskSpec
from odradek.connect.tasks.tolerance import Tolerance
from odradek.connect.transformation import Transforms
from support.connect_service import eventually


class Service:
    """The driver's end, which a test can make grant nothing."""

    def __init__(self) -> None:
        self.is_granting, self.is_closed = True, False
        self.reports: list[Mapping[str, object]] = []
        self.leashes = Leashes("127.0.0.1", lambda _, facts: self.reports.append(facts), lambda: self.is_granting)

    @contextmanager
    def leash(self, run: str, clock: list[float] | None = None) -> Iterator[Leash]:
        ticking = {} if clock is None else {"clock": lambda: clock[0]}
        with Leash(self.leashes.address, self.leashes.token, run, **ticking) as leash:
            yield leash


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    if not made.is_closed:
        made.leashes.close()


def test_a_lease_ends_when_it_is_not_renewed(service: Service) -> None:
    now = [100.0]
    service.leashes.expect("run-1")
    with service.leash("run-1", now) as leash:
        leash.check()
        now[0] += LEASE_S + 0.1
        service.is_granting = False
        # A lease that was on its way may still arrive; after that none does.
        eventually(lambda: _is_lost(leash, now))


def _is_lost(leash: Leash, now: list[float]) -> bool:
    try:
        leash.check()
    except LeaseLost:
        return True
    now[0] += LEASE_S + 0.1
    return False


def test_a_run_that_is_asked_to_stop_hears_why_also_before_it_connects(service: Service) -> None:
    service.leashes.expect("run-1")
    with service.leash("run-1") as leash:
        service.leashes.halt("run-1", "paused")
        eventually(lambda: leash.stop_for == "paused")
    service.leashes.expect("run-2")
    service.leashes.halt("run-2", "deleted")
    with service.leash("run-2") as leash:
        eventually(lambda: leash.stop_for == "deleted")


def test_a_run_that_spark_starts_a_second_time_gets_no_lease(service: Service) -> None:
    service.leashes.expect("run-1")
    with service.leash("run-1") as first, service.leash("run-1") as second:
        first.check()
        eventually(lambda: second.stop_for == "this run is not expected")
        with pytest.raises(LeaseLost):
            second.check()


def test_a_wrong_token_gets_no_lease(service: Service) -> None:
    service.leashes.expect("run-1")
    with Leash(service.leashes.address, "guessed", "run-1") as leash, pytest.raises(LeaseLost):
        leash.check()


def test_a_service_that_ends_takes_all_leases_with_it(service: Service) -> None:
    service.leashes.expect("run-1")
    with service.leash("run-1") as leash:
        leash.check()
        service.leashes.close()
        service.is_closed = True
        eventually(lambda: leash.stop_for is not None)
        with pytest.raises(LeaseLost):
            leash.check()


def test_a_service_that_ends_closes_connections_that_were_just_made(service: Service) -> None:
    is_blocked, may_go_on = Event(), Event()

    def block() -> None:
        is_blocked.set()
        may_go_on.wait()

    address, loop = service.leashes.address, service.leashes._loop
    loop.call_soon_threadsafe(block)
    is_blocked.wait()
    connections = [socket.create_connection(address) for _ in range(3)]
    # The end comes in the turn in which the loop begins to serve these connections.
    loop.call_soon_threadsafe(loop.call_soon, service.leashes._ended.set)
    may_go_on.set()
    service.leashes.close()
    service.is_closed = True
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always")
        gc.collect()
    assert [str(each.message) for each in unclosed] == []
    for connection in connections:
        connection.close()


class Written:
    def __init__(self) -> None:
        self.records: list[Encoded] = []

    def write(self, records: Sequence[Encoded], _topic: str, _offsets: Iterable[object]) -> None:
        self.records += records


class NoTopics:
    def ensure(self, _: Iterable[str]) -> None:
        pass


class Held:
    """A leash whose lease a test decides."""

    def __init__(self, *, holds: bool) -> None:
        self.holds = holds
        self.stop_for: str | None = None

    def check(self) -> None:
        if not self.holds:
            raise LeaseLost("no lease")

    def rest(self, seconds: float) -> None:
        Event().wait(seconds)

    def report(self, _: Mapping[str, object]) -> None:
        pass


@pytest.mark.parametrize("holds", [True, False])
def test_a_source_writes_only_while_it_holds_a_lease(tmp_path: Path, holds: bool) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("1\n2\n")
    spec = TaskSpec(
        run="run-1",
        connector="lines",
        task=0,
        given={},
        bootstrap="",
        clients={},
        offsets_topic="offsets",
        driver=("", 0),
        token="",
        linger_s=0.0,
        partitions=(({"filename": str(file)}, None),),
    )
    written = Written()
    run = SourceRun(
        spec=spec,
        source=FilesSource(FilesSourceConfig(path=str(file), topic="lines")),
        conversion=Conversion.of({}),
        transforms=Transforms({}),
        tolerance=Tolerance(SourceOptions(name="lines", connector_class="files-source")),
        writer=written,
        missing_topics=NoTopics(),
        leash=Held(holds=holds),
        poll_interval_s=0.01,
    )
    if holds:
        assert run.run().ending is Ending.IDLE
        assert [record.value for record in written.records] == [b"1", b"2"]
    else:
        with pytest.raises(LeaseLost):
            run.run()
        assert written.records == []
