"""Alerts in the console: evaluated from what it reads, with their history, and what it cannot evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from console.snapshots import broker as a_broker
from console.snapshots import healthy, quorum, with_broker, with_group
from odradek.console.alert_findings import findings, path_of
from odradek.console.collecting.alert_sources import LAG, UP, Source, lag_samples
from odradek.console.collecting.alerts import AlertReader, KnownAlerts, State, action_for, filled, instances
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.connectors.seen import Connect, Service
from odradek.console.finding import Level
from odradek.console.pages.alerts import known_alerts, subject
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.monitor.alerts.samples import Sample
from odradek.monitor.lag.evaluation import Status
from odradek.monitor.rules import alert_groups
from support.broker_process import BrokerProcess, free_port
from support.consoles import HTML, Running
from support.waiting import wait_until

MINUTE_MS = 60_000
SOURCES = [Source(name=f"broker {each}", url=f"http://node-{each}") for each in (1, 2, 3)]


class World:
    """Three brokers with values of metrics, read once a minute."""

    def __init__(self, snapshot: Snapshot | None = None, sources: Sequence[Source] = SOURCES) -> None:
        self.reader = AlertReader(lambda _: None)
        self.snapshot = snapshot or healthy()
        self.sources = list(sources)
        self.values: dict[tuple[str, str], float] = {}
        self.silent: set[str] = set()
        self._minute = 0

    def minute(self, count: int = 1) -> KnownAlerts:
        for _ in range(count):
            self._minute += 1
            sources = [replace(each, problem="refused" if each.name in self.silent else "") for each in self.sources]
            samples = {each.name: None if each.problem else self._samples(each.name) for each in sources}
            ups = [Sample(UP, self._labels(each.name), float(not each.problem)) for each in sources]
            lag = list(lag_samples(self.snapshot))
            known = self.reader.step(self._minute * MINUTE_MS, sources, {**samples, UP: ups, LAG: lag}, self.snapshot)
        return known

    def _samples(self, instance: str) -> list[Sample]:
        return [
            Sample(name, self._labels(instance), value)
            for (where, name), value in self.values.items()
            if where == instance
        ]

    def _labels(self, instance: str) -> tuple[tuple[str, str], ...]:
        return (("instance", instance), ("job", "odradek"))


def states(known: KnownAlerts, name: str) -> State:
    found = known.named(name)
    assert found is not None
    return found.state


UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
CONTROLLERS = "kafka_controller_kafkacontroller_activecontrollercount"
FENCED = "kafka_controller_kafkacontroller_fencedbrokercount"


def test_an_alert_is_pending_fires_after_its_time_and_is_remembered() -> None:
    world = World()
    world.values["broker 1", UNDER_REPLICATED] = 3
    known = world.minute()
    assert states(known, "UnderReplicatedPartitions") is State.PENDING
    known = world.minute(5)
    assert states(known, "UnderReplicatedPartitions") is State.FIRING
    assert known.alerts[0].alert.name == "UnderReplicatedPartitions", "firing ones come first"
    [(alert, one)] = instances(known.alerts, State.FIRING)
    assert one.summary.startswith("Partitions led by broker 1 that lack a replica: 3. ")
    assert (one.value, one.since_ms, path_of(alert, one)) == (3, 6 * MINUTE_MS, "/topics?show=problems")
    world.values["broker 1", UNDER_REPLICATED] = 0
    known = world.minute()
    assert states(known, "UnderReplicatedPartitions") is State.QUIET
    [past] = known.past
    assert (past.name, past.opened_ms, past.closed_ms) == ("UnderReplicatedPartitions", 6 * MINUTE_MS, 7 * MINUTE_MS)


def test_an_alert_stays_open_while_its_broker_gives_no_answer() -> None:
    world = World(with_broker(healthy(), 1, problem="refused"))
    world.values["broker 1", UNDER_REPLICATED] = 3
    world.minute(6)
    world.silent.add("broker 1")
    known = world.minute(2)
    assert states(known, "UnderReplicatedPartitions") is State.FIRING
    assert states(known, "TargetDown") is State.FIRING
    values = {alert.alert.name: one.value for alert, one in instances(known.alerts, State.FIRING)}
    assert values == {"UnderReplicatedPartitions": None, "TargetDown": 0.0}
    assert list(findings(known)) == [], "the verdict says that the broker is down"


def test_the_metrics_of_a_connect_service_that_answers_otherwise_are_a_problem_of_their_own() -> None:
    source = Source(name="Connect at c", url="http://user:secret@c/", is_connect=True)
    service = Service(key="c", url="http://c", is_default=False)
    for problem, told in (("", ["The metrics of Connect at c cannot be read"]), ("refused", [])):
        connect = Connect(services=(replace(service, problem=problem),))
        world = World(replace(healthy(), parts={"connect": connect}), [source])
        world.silent.add(source.name)
        assert [each.what.partition(":")[0] for each in findings(world.minute(3))] == told


def test_conditions_over_all_nodes_are_about_the_cluster() -> None:
    world = World()
    world.values |= {(f"broker {each}", CONTROLLERS): 0.0 for each in (1, 2, 3)}
    known = world.minute(2)
    [(alert, one)] = instances(known.alerts, State.FIRING)
    assert (alert.alert.name, subject(one.labels)) == ("NoActiveController", "the cluster")
    assert one.summary.startswith("The cluster has no active controller")
    world.values["broker 2", CONTROLLERS] = 1.0
    assert states(world.minute(), "NoActiveController") is State.QUIET


def test_a_controller_that_is_not_read_makes_its_alerts_unknown_and_not_false() -> None:
    world = World(replace(healthy(), quorum=quorum((1, 2, 101))))
    known = world.minute(3)
    found = known.named("NoActiveController")
    assert found is not None
    assert found.state is State.NOT_EVALUATED
    assert found.why_not == "the active controller may be node 101, whose metrics are not read"
    world = World(replace(healthy(), brokers=(*healthy().brokers, a_broker(4))))
    world.values |= {(f"broker {each}", CONTROLLERS): 0.0 for each in (1, 2, 3)}
    known = world.minute(3)
    assert states(known, "NoActiveController") is State.NOT_EVALUATED
    assert known.unread == ("broker 4",)
    assert states(known, "UnderReplicatedPartitions") is State.QUIET


def test_what_other_processes_measure_is_not_evaluated_and_says_why() -> None:
    known = World().minute()
    reasons = {each.alert.name: each.why_not for each in known.alerts if each.state is State.NOT_EVALUATED}
    assert "odradek monitor" in reasons["MonitoredClusterUnreachable"]
    assert "--connect" in reasons["ConnectorTaskFailed"]
    assert "applications" in reasons["StreamsDeadLetters"]
    assert "producers" in reasons["RecordsNotDelivered"]
    with_connect = World(sources=[*SOURCES, Source(name="Connect at c", url="http://c", is_connect=True)]).minute()
    assert states(with_connect, "ConnectorTaskFailed") is State.QUIET
    only_connect = World(sources=[Source(name="Connect at c", url="http://c", is_connect=True)]).minute()
    assert states(only_connect, "DiskFull") is State.NOT_EVALUATED
    unread = World(replace(healthy(), lag_is_known=False)).minute()
    assert states(unread, "ConsumerGroupStuck") is State.NOT_EVALUATED


def test_stuck_groups_are_evaluated_from_the_lag_that_the_console_knows() -> None:
    world = World(with_group(healthy(), "billing/eu", Status.STALL))
    known = world.minute(6)
    [(alert, one)] = instances(known.alerts, State.FIRING)
    assert (alert.alert.name, path_of(alert, one)) == ("ConsumerGroupStuck", "/groups/billing%2Feu")
    assert one.summary == "Group billing/eu of the cluster has lag and makes no progress."
    assert one.action[1] == "odradek group lag billing/eu --partitions"
    world.snapshot = with_group(healthy(), "billing/eu", Status.OK)
    assert states(world.minute(), "ConsumerGroupStuck") is State.QUIET


def test_alerts_that_the_verdict_does_not_see_are_findings() -> None:
    world = World()
    world.values |= {("broker 2", "process_open_fds"): 90.0, ("broker 2", "process_max_fds"): 100.0}
    world.silent.add("broker 3")
    world.values["broker 1", UNDER_REPLICATED] = 3
    told = {each.what: each for each in findings(world.minute(7))}
    assert set(told) == {
        "The metrics of broker 3 cannot be read: the process is down or cannot be reached",
        "Broker 2 uses more than 80 % of its file descriptors",
    }
    found = told["Broker 2 uses more than 80 % of its file descriptors"]
    assert (found.level, found.path) == (Level.WARN, "/alerts/FileDescriptorsRunOut")
    assert found.step == "Raise the limit (ulimit -n, LimitNOFILE= of systemd) and restart the process"


def test_the_nearest_value_is_shown_of_a_quiet_alert() -> None:
    world = World()
    for broker, used in (("broker 1", 10.0), ("broker 2", 60.0)):
        world.values |= {(broker, "process_open_fds"): used, (broker, "process_max_fds"): 100.0}
    found = world.minute().named("FileDescriptorsRunOut")
    assert found is not None
    assert (found.state, found.worst) == (State.QUIET, 0.6)


def test_texts_are_filled_with_labels_and_values() -> None:
    text = "{{ $value }} of {{ $labels.topic }} at {{$labels.instance}}"
    assert filled(text, {"topic": "orders", "instance": "broker 1"}, 1234.0) == "1,234 of orders at broker 1"
    assert filled("The cluster {{ $labels.job }} has N", {"job": "odradek"}, None) == "The cluster has N"
    assert filled("Left: {{ $value | humanize1024 }}B.", {}, 10 * 1024**3) == "Left: 10GiB."
    assert filled("It keeps {{ $value | humanize1024 }}B of its log.", {}, None) == "It keeps some of its log."
    assert filled("Fenced brokers: {{ $value }}.", {}, None) == "Fenced brokers: unknown."


def test_commands_of_an_alert_quote_names_for_the_shell_and_unknown_ones_are_words_in_capitals() -> None:
    stuck = next(each for _, alerts in alert_groups() for each in alerts if each.name == "ConsumerGroupStuck")
    hostile = "a`; rm -rf ~"
    assert action_for(stuck, {"consumer_group": hostile}, 3.0)[1] == f"odradek group lag '{hostile}' --partitions"
    assert action_for(stuck, {}, None)[1] == "odradek group lag CONSUMER_GROUP --partitions"
    for _, alerts in alert_groups():
        for each in alerts:
            assert "{{" not in "".join(action_for(each, {}, None)), each.name


# --- a real broker


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker with /metrics, and a Connect service that is down."""
    with (
        BrokerProcess(tmp_path_factory.mktemp("data"), **{"http.listener": f"127.0.0.1:{free_port()}"}) as broker,
        running(
            ConsoleSettings(
                bootstrap=broker.bootstrap,
                port=0,
                connect=(f"http://user:secret@127.0.0.1:{free_port()}",),
                alert_time_factor=0.01,
            )
        ) as (console, server),
    ):
        wait_until(lambda: known_alerts(console.snapshot).firing, "an alert fires")
        wait_until(
            lambda: "broker 1" in [each.name for each in known_alerts(console.snapshot).sources], "the broker is read"
        )
        yield Running(console, server.url)


def test_conditions_find_their_metrics_on_a_real_broker(observed: Running) -> None:
    quiet = {
        each.alert.name: each.worst for each in known_alerts(observed.console.snapshot).alerts if each.worst is not None
    }
    assert quiet["UnderReplicatedPartitions"] == 0
    assert 0 < quiet["DiskFull"] < 1
    assert 0 < quiet["FileDescriptorsRunOut"] < 1
    assert quiet["EventLoopSlow"] >= 0
    assert quiet["NoActiveController"] == 1


def test_pages_show_what_fires_what_it_means_and_what_to_do(observed: Running) -> None:
    page = observed.page("/alerts")
    assert "TargetDown</a>" in page
    assert "What to do" in page
    assert "<code>http.listener</code>" in page
    assert "secret" not in page
    assert "cannot be evaluated here" in page
    assert "still open" in page
    assert "StreamsDeadLetters</a>" not in observed.page("/alerts?show=firing")
    assert "StreamsDeadLetters</a>" in observed.page("/alerts?show=not-evaluated")
    assert "No alert matches" in observed.page("/alerts?q=nosuch")
    one = observed.page("/alerts/TargetDown")
    assert "up == 0" in one
    assert "Connect at 127.0.0.1:" in one
    assert "It is not evaluated here" in observed.page("/alerts/RecordsNotDelivered")
    assert observed.get("/alerts/nosuch", **HTML).status_code == 404


def test_a_connect_service_that_is_down_is_one_problem(observed: Running) -> None:
    page = observed.page("/")
    assert "Connect at 127.0.0.1:" in page
    assert "cannot be asked" in page
    assert "The metrics of Connect at" not in page, "the alert TargetDown is about the same"


def test_a_cluster_without_metrics_has_no_such_page(console: Running) -> None:
    wait_until(lambda: console.console.snapshot.number > 3, "the console has read the cluster")
    assert not known_alerts(console.console.snapshot).alerts
    assert 'href="/alerts"' not in console.page("/")
