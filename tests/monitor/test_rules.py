"""Alert rules and dashboard are generated from the catalogue; the copies in deploy/ are current."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from odradek.cli.main import main
from odradek.monitor.catalogue import all_metrics, consumer_lag, partitions
from odradek.monitor.dashboard import dashboard, panels
from odradek.monitor.metric import Metric
from odradek.monitor.rules import TARGET_DOWN, alert_groups, alert_rules, with_readable_value
from support.prometheus_process import MISSING, program

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "odradek.rules.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "odradek.json"


def printed(*arguments):
    done = CliRunner().invoke(main, ["metrics", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_checked_in_copies_are_current():
    assert RULES.read_text() == printed("rules"), "run `python tools/metrics.py`"
    assert DASHBOARD.read_text() == printed("dashboard"), "run `python tools/metrics.py`"


def test_rules_have_every_alert_and_times_can_be_scaled():
    names = {alert.name for _, alerts in alert_groups() for alert in alerts}
    assert names >= {alert.name for metric in all_metrics() for alert in metric.alerts}
    for name in names:
        assert f"- alert: {name}\n" in alert_rules()
    assert "for: 60s" in alert_rules()
    assert "for: 600ms" in alert_rules(0.01)


def test_alerts_name_only_commands_options_and_alerts_that_exist():
    names, commands = {alert.name for _, alerts in alert_groups() for alert in alerts}, 0
    for _, alerts in alert_groups():
        for alert in alerts:
            for words in re.findall(r"`odradek ([^`]+)`", alert.action):
                commands += 1
                require_command(words.split())
            assert set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b", alert.action)) <= {*names, *STATES}, alert.name
    assert commands


STATES = {"PrepareCommit", "PrepareAbort"}


def require_command(words):
    command, context = main, click.Context(main)
    for word in words:
        if isinstance(command, click.Group):
            command = command.get_command(context, word)
            assert command is not None, words
        elif word.startswith("--"):
            assert any(word in parameter.opts for parameter in command.params), words


def test_dashboard_has_a_panel_for_every_metric_and_unique_ids():
    """Except metrics of single partitions."""
    drawn = [panel for row in dashboard()["panels"] for panel in (row, *row.get("panels", ()))]
    assert len({panel["id"] for panel in drawn}) == len(drawn)
    queries = [target["expr"] for panel in drawn for target in panel.get("targets", ())]
    assert len(queries) == sum(len(row) for _, row in panels())
    left_out = [each for each in vars(partitions).values() if isinstance(each, Metric)]
    for metric in all_metrics():
        if metric in left_out:
            continue
        assert any(metric.name in query for query in queries), metric.name


def test_metrics_ls_lists_the_catalogue():
    rows = json.loads(printed("ls", "-o", "json"))
    assert [row["metric"] for row in rows] == [metric.name for metric in all_metrics()]
    assert "process_open_fds" in printed("ls")


@pytest.mark.skipif(program("promtool") is None, reason=MISSING)
def test_promtool_accepts_the_rules():
    done = subprocess.run([program("promtool"), "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count = sum(len(alerts) for _, alerts in alert_groups())
    assert f"{count} rules found" in done.stdout


def evaluated(tmp_path, series, *cases):
    """Prometheus evaluates the rules on `series`; each case is (minute, alert, its annotation summary or None)."""
    path = tmp_path / "test.json"  # JSON is YAML
    tests = {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": expected} for minute, alert, expected in cases
        ],
    }
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [tests]}))
    done = subprocess.run([program("promtool"), "test", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def firing(name, summary, **labels):
    [alert] = [each for _, alerts in alert_groups() for each in alerts if each.name == name]
    return {
        "exp_labels": {"severity": alert.severity.value, "job": "odradek", **labels},
        "exp_annotations": {"summary": summary, "description": alert.action},
    }


@pytest.mark.skipif(program("promtool") is None, reason=MISSING)
@pytest.mark.parametrize(
    ("alert", "metric", "labels"),
    [
        ("ProduceSlow", "kafka_network_requestmetrics_totaltimems", {"request": "Produce"}),
        ("FlushSlow", "kafka_log_logflushstats_logflushrateandtimems", {}),
    ],
)
def test_one_slow_measurement_before_idle_hours_does_not_fire_and_many_do(tmp_path, alert, metric, labels):
    # Percentiles keep their value while nothing is measured.
    def series(instance, counts):
        given = "".join(f',{name}="{value}"' for name, value in labels.items())
        shared = f'job="odradek",instance="{instance}"{given}'
        return {f'{metric}{{{shared},quantile="0.99"}}': "2+0x8 2000+0x400", f"{metric}_count{{{shared}}}": counts}

    idle, busy = series("idle", "5+0x8 6+0x400"), series("busy", "5+0x8 6+10x400")
    [summary] = [each.summary for _, alerts in alert_groups() for each in alerts if each.name == alert]
    told = firing(alert, summary.replace("{{ $labels.instance }}", "busy"), instance="busy", quantile="0.99", **labels)
    cases = [(minute, alert, [told]) for minute in (9, 30, 90)]
    evaluated(tmp_path, {**idle, **busy}, (4, alert, []), *cases)


@pytest.mark.skipif(program("promtool") is None, reason=MISSING)
def test_values_in_alerts_are_written_for_people(tmp_path):
    evaluated(
        tmp_path,
        {
            'odradek_connect_replicationslot_retainedbytes{job="odradek",connector="shop"}': "11000000000+0x40",
            'kafka_server_replicamanager_underreplicatedpartitions{job="odradek",instance="a"}': "12000+0x40",
        },
        (
            8,
            "ReplicationSlotHoldsLog",
            [firing("ReplicationSlotHoldsLog", SLOT_SUMMARY, connector="shop")],
        ),
        (8, "UnderReplicatedPartitions", [firing("UnderReplicatedPartitions", REPLICA_SUMMARY, instance="a")]),
    )


def test_seconds_in_alerts_are_written_as_durations():
    [metric] = [each for each in vars(consumer_lag).values() if isinstance(each, Metric) and each.unit == "seconds"]
    alert = with_readable_value(replace(TARGET_DOWN, summary="Late by {{ $value }}."), metric)
    assert alert.summary == "Late by {{ $value | humanizeDuration }}."


SLOT_SUMMARY = "PostgreSQL keeps 10.24GiB of its log for the connector shop."
REPLICA_SUMMARY = "Partitions led by a that lack a replica: 12k. The next failure may make them unavailable."
