"""Alert rules and dashboard are generated from the catalogue; the copies in deploy/ are current."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from odradek.cli.main import main
from odradek.monitor.catalogue import all_metrics, partitions
from odradek.monitor.dashboard import dashboard, panels
from odradek.monitor.metric import Metric
from odradek.monitor.rules import alert_groups, alert_rules
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
