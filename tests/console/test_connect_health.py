"""What the console concludes from connectors: findings of the overview, events, and the cause in a trace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.snapshots import healthy, with_group
from odradek.console.connectors.health import events, findings
from odradek.console.connectors.secrets import masked
from odradek.console.connectors.seen import Connect, Connector, Service, Task, cause_of
from odradek.console.finding import Level
from odradek.console.pages.connect import PAGE
from odradek.console.verdict import verdict
from odradek.monitor.lag.evaluation import Status

SERVICE = Service(key="worker:8083", url="http://worker:8083", is_default=False, version="4.3.0")
PYTHON = """Traceback (most recent call last):
  File "task.py", line 46, in run
    raise exc.ArgumentError(
        ^^^^^
sqlalchemy.exc.ArgumentError: Invalid URL: x
Valid forms are:
 sqlite://
"""
JAVA = """org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.deliverMessages(WorkerSinkTask.java:632)
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)
"""


def connector(name: str = "orders-out", *states: str, state: str = "RUNNING", trace: str = PYTHON, **more) -> Connector:
    tasks = tuple(
        Task(number=number, state=each, worker="worker:8083", trace=trace if each in ("FAILED", "RESTARTING") else "")
        for number, each in enumerate(states or ("RUNNING",))
    )
    return Connector(
        service=SERVICE.key,
        name=name,
        kind="sink",
        plugin="files-sink",
        state=state,
        worker="worker:8083",
        tasks=tasks,
        **more,
    )


def found(*connectors: Connector, service: Service = SERVICE) -> list:
    return list(findings(Connect(services=(service,), connectors=connectors)))


def test_connectors_that_run_are_no_problem():
    assert found(connector(), connector("paused", state="PAUSED")) == []


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        (PYTHON, "ArgumentError: Invalid URL: x"),
        (JAVA, "ConnectException: Connection refused"),
        ("", ""),
        ("no space left", "no space left"),
        ("x" * 1000, "x" * 299 + "…"),
    ],
)
def test_the_cause_in_a_trace_is_its_exception(trace, cause):
    assert cause_of(trace) == cause


def test_a_failed_task_is_named_with_its_cause_and_the_page():
    [problem] = found(connector("orders/out", "RUNNING", "FAILED", lag=1200))
    assert problem.level is Level.BAD
    assert problem.what == "Connector orders/out has failed in 1 of 2 tasks"
    assert problem.why == "ArgumentError: Invalid URL: x. 1,200 records wait"
    assert problem.path == "/connect/worker%3A8083/orders%2Fout"


def test_the_group_of_a_failed_sink_is_no_problem_of_its_own():
    snapshot = with_group(healthy(), "connect-orders-out", Status.STOP, state="Empty")
    assert "connect-orders-out has no consumers" in verdict(snapshot).sentence
    broken = replace(snapshot, findings=tuple(found(connector("orders-out", "FAILED"))))
    assert verdict(broken).sentence == "Connector orders-out has failed: its only task has stopped"


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (connector("a", "RESTARTING"), "Connector a fails, and is started again"),
        (connector("a", state="PAUSED", lag=9, seconds_behind=90), "Connector a is paused, and records wait"),
        (connector("a", lag=9, seconds_behind=90, rule=Status.WARN), "Connector a is falling behind"),
        (connector("a", newly_skipped=3), "Connector a leaves records out"),
        (connector("a", state="FAILED", trace=JAVA), "Connector a has failed"),
    ],
)
def test_problems_of_connectors(seen, told):
    assert [each.what for each in found(seen)] == [told]


def test_problem_with_one_record_uses_the_singular():
    [waits] = found(connector("a", "FAILED", lag=1))
    assert waits.why == "ArgumentError: Invalid URL: x. 1 record waits"
    [behind] = found(connector("a", state="PAUSED", lag=1, seconds_behind=90))
    assert behind.why == "Somebody has paused it. It is 1 record behind"
    [left_out] = found(connector("a", newly_skipped=1))
    assert left_out.why == "1 record could not be processed in the last five minutes"


def test_many_failed_connectors_are_summed_up():
    problems = found(*(connector(f"c{number}", "FAILED") for number in range(8)))
    assert len(problems) == 6
    assert problems[-1].what == "3 more connectors have failed"
    assert problems[-1].explains == {"connect-c5", "connect-c6", "connect-c7"}


def test_a_silent_service_explains_its_connectors():
    silent = replace(SERVICE, problem="http://worker:8083 does not answer: Connection refused")
    [problem] = found(connector("a", "FAILED"), connector("b"), service=silent)
    assert problem.level is Level.BAD
    assert problem.what == "Connect at worker:8083 cannot be asked"
    assert "Its 2 connectors have probably stopped" in problem.why
    assert problem.explains == {"connect-a", "connect-b"}
    [missing] = found(service=silent)
    assert missing.level is Level.WARN


def test_changes_of_states_are_events():
    def told(before, now):
        return [each.text for each in events(Connect(services=(SERVICE,), connectors=before), now)]

    now = Connect(services=(SERVICE,), connectors=(connector("a", "FAILED"), connector("b")))
    assert told((connector("a"), connector("c")), now) == [
        "Connector a has failed: ArgumentError: Invalid URL: x",
        "Connector b was created",
        "Connector c was deleted",
    ]
    assert told(now.connectors, now) == []
    silent = Connect(services=(replace(SERVICE, problem="gone"),), connectors=())
    assert list(events(silent, now)) == []


def test_secrets_of_a_config_are_hidden():
    shown = {"topics": "orders", "db.password": "${file:secrets:db}", "tasks.max": "1", "pw": ""}
    secrets = {
        "connection.password": "hunter2",
        "declared": "hunter2",
        "connection.url": "jdbc:postgresql://me:hunter2@db/shop",
        "consumer.override.sasl.jaas.config": 'PlainLoginModule password="hunter2"',
        "aws.secret.access.key": "hunter2",
        "old": "jdbc:mysql://db/shop?user=me&password=hunter2",
        "basic.auth.user.info": "me:hunter2",
    }
    assert masked(shown | secrets, {"declared"}) == shown | dict.fromkeys(secrets, "****")


def test_the_page_is_hidden_without_a_service():
    assert not PAGE.is_there(healthy())
    assert PAGE.is_there(replace(healthy(), parts={"connect": Connect()}))
