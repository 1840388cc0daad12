"""Conditions of alerts: the part of PromQL that they use, evaluated as Prometheus does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from odradek.monitor.alerts.conditions import NotUnderstood, Vector, increase, parsed
from odradek.monitor.alerts.recording import KEPT_MS, Recording
from odradek.monitor.alerts.rules import Rule
from odradek.monitor.alerts.samples import Sample
from odradek.monitor.rules import alert_groups
from support.prometheus_process import MISSING, program

MINUTE_MS = 60_000
ALERTS = {alert.name: alert for _, alerts in alert_groups() for alert in alerts}
# Values one minute apart; "_" is a missing sample, as in promtool.
SERIES = {
    'up{instance="a",job="o"}': "1 0 0",
    'kafka_network_requestmetrics_totaltimems{instance="a",request="Produce",quantile="0.99"}': "5 2000 1200.5",
    'kafka_network_requestmetrics_totaltimems{instance="a",request="Fetch",quantile="0.99"}': "9000 9000 9000",
    'odradek_log_logmanager_diskusablebytes{instance="a",directory="/d"}': "50 5 1",
    'odradek_log_logmanager_disktotalbytes{instance="a",directory="/d"}': "100 100 100",
    'odradek_log_logmanager_disktotalbytes{instance="b",directory="/d"}': "100 100 100",
    'kafka_server_raft_metrics_current_state_info{instance="a",job="o",state="leader"}': "1 _ _",
    'kafka_server_raft_metrics_current_state_info{instance="a",job="o",state="candidate"}': "_ 1 1",
    'kafka_server_broker_metadata_metrics_last_applied_record_offset{instance="a",job="o"}': "10 500 900",
    'kafka_server_broker_metadata_metrics_last_applied_record_offset{instance="b",job="o"}': "10 20 30",
    'kafka_controller_kafkacontroller_activecontrollercount{instance="a",job="o"}': "1 0 0",
    'kafka_controller_kafkacontroller_activecontrollercount{instance="b",job="o"}': "0 0 1",
    'kafka_controller_kafkacontroller_fencedbrokercount{instance="a",job="o"}': "0 2 1",
    'kafka_controller_kafkacontroller_fencedbrokercount{instance="b",job="o"}': "3 0 0",
    'process_open_fds{instance="a"}': "10 90 90",
    'process_max_fds{instance="a"}': "100 100 100",
}
EXACT = (
    "TargetDown",
    "DiskFull",
    "NoMetadataLeader",
    "MetadataLag",
    "NoActiveController",
    "FencedBrokers",
    "FileDescriptorsRunOut",
)


def samples(minute: int) -> list[Sample]:
    found = []
    for series, values in SERIES.items():
        name, _, inside = series.partition("{")
        value = values.split()[minute]
        if value != "_":
            labels = tuple(sorted((key, text) for key, text in _labels(inside)))
            found.append(Sample(name, labels, float(value)))
    return found


def _labels(inside: str) -> list[tuple[str, str]]:
    return [(key, json.loads(text)) for key, _, text in (each.partition("=") for each in inside[:-1].split(","))]


def recorded(minutes: int) -> Recording:
    recording = Recording(parsed(alert.expression) for alert in ALERTS.values())
    for minute in range(minutes):
        recording.add(minute * MINUTE_MS, {"all": samples(minute)})
    return recording


def test_every_condition_of_the_catalogue_is_understood() -> None:
    for alert in ALERTS.values():
        condition = parsed(alert.expression)
        assert condition.names
        assert not condition.holds(float("nan"))


@pytest.mark.skipif(program("promtool") is None, reason=MISSING)
def test_prometheus_evaluates_the_same(tmp_path: Path) -> None:
    """At each minute. `increase` and `rate` are left out: Prometheus extrapolates them."""
    checks = []
    for minute in range(3):
        recording = recorded(minute + 1)
        for name in EXACT:
            expression = ALERTS[name].expression
            left = expression[: max(map(expression.rfind, (">", "<", "==")))]
            found = parsed(expression).expression.vector(recording)
            checks.append({"expr": left, "eval_time": f"{minute}m", "exp_samples": _expected(left, found)})
    series = [{"series": each, "values": values} for each, values in SERIES.items()]
    file = tmp_path / "test.yml"
    file.write_text(
        json.dumps({"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": checks}]})  # JSON is YAML
    )
    done = subprocess.run([program("promtool"), "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _expected(left: str, found: Vector) -> list[dict[str, object]]:
    """Prometheus keeps the name of the metric where nothing was computed."""
    name = left.strip().partition("{")[0] if not set(left) & set("(/") else ""
    return [
        {"labels": name + "{" + ",".join(f"{key}={json.dumps(text)}" for key, text in labels) + "}", "value": value}
        for labels, value in found.items()
    ]


@pytest.mark.parametrize(
    "text",
    [
        "up",
        "up == down",
        "up == 0 and on () other",
        "histogram_quantile(0.9, x) > 1",
        "increase(x[5 parsecs]) > 1",
        "x{a~b} > 1",
        "up > 1 2",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(NotUnderstood):
        parsed(text)


def test_a_restart_of_a_process_does_not_decrease_its_counters() -> None:
    assert increase([5, 7, 1, 2]) == 4


def test_a_counter_that_appears_was_zero_when_its_process_was_read_before() -> None:
    condition = parsed("increase(errors_total[5m]) > 0")
    recording = Recording([condition])
    first = Sample("errors_total", (("instance", "a"),), 3.0)
    recording.add(0, {"a": [first]})
    assert condition.expression.vector(recording) == {}, "it may have counted for long"
    recording.add(MINUTE_MS, {"a": [first, first._replace(labels=(("instance", "a"), ("code", "x")))]})
    assert sorted(condition.expression.vector(recording).values()) == [0.0, 3.0]


def test_a_slow_request_does_not_count_while_nothing_is_measured() -> None:
    condition = parsed('times{quantile="0.99"} > 1000 and ignoring (quantile) rate(times_count[3m]) > 0')
    recording = Recording([condition])
    for minute in range(3):
        busy, idle = (("instance", "busy"),), (("instance", "idle"),)
        slow = [Sample("times", (*labels, ("quantile", "0.99")), 2000.0) for labels in (busy, idle)]
        counts = [Sample("times_count", busy, 5.0 * minute), Sample("times_count", idle, 5.0)]
        recording.add(minute * MINUTE_MS, {"all": [*slow, *counts]})
    assert condition.names == {"times", "times_count"}
    assert condition.threshold == 1000
    assert condition.expression.vector(recording) == {(("instance", "busy"), ("quantile", "0.99")): 2000.0}


def test_a_range_forgets_what_is_older() -> None:
    condition = parsed("increase(errors_total[1m]) > 0")
    recording = Recording([condition])
    for minute, value in enumerate((0.0, 1.0, 1.0, 1.0)):
        recording.add(minute * MINUTE_MS, {"a": [Sample("errors_total", (), value)]})
    assert condition.expression.vector(recording) == {(): 0.0}
    recording.add(4 * MINUTE_MS + KEPT_MS, {"a": []})
    assert condition.expression.vector(recording) == {}


def test_a_source_that_cannot_be_read_has_no_samples() -> None:
    condition = parsed("load > 1")
    recording = Recording([condition])
    recording.add(0, {"a": [Sample("load", (), 2.0)], "b": None})
    assert condition.expression.vector(recording) == {(): 2.0}
    recording.add(1, {"a": None})
    assert condition.expression.vector(recording) == {}


def test_a_rule_may_ask_for_one_value() -> None:
    rule = Rule(name="down", metric="up", equal=0.0)
    assert rule.is_crossed(Sample("up", (), 0.0))
    assert not rule.is_crossed(Sample("up", (), 1.0))
    assert rule.condition == "up == 0"
