"""`odradek metrics`: what is measured, and what Prometheus and Grafana need to know about it."""

from __future__ import annotations

import click

from odradek.cli.groups import Group
from odradek.cli.output import output_option, print_rows


@click.group("metrics", cls=Group)
def command() -> None:
    """List the metrics; print alert rules for Prometheus and a dashboard for Grafana.

    Running processes serve their metrics at /metrics; each prints its address when it starts.
    """


@command.command("ls")
@output_option
def list_metrics(output: str) -> None:
    """List every metric that an Odradek process may have."""
    from odradek.monitor.catalogue import all_metrics

    rows = [
        {
            "metric": metric.name,
            "kind": metric.kind.value,
            "unit": metric.unit,
            "labels": metric.labels,
            **({} if output == "table" else {"mbean": metric.mbean, "help": metric.help}),
            "alerts": tuple(alert.name for alert in metric.alerts),
        }
        for metric in all_metrics()
    ]
    print_rows(rows, output, nothing="there are no metrics")


@command.command("rules")
@click.option(
    "--time-factor",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Multiplies how long a condition must hold before its alert fires.",
)
def print_rules(time_factor: float) -> None:
    """Print alert rules for Prometheus, as a file for its `rule_files`."""
    from odradek.monitor.rules import alert_rules

    click.echo(alert_rules(time_factor), nl=False)


@command.command("dashboard")
def print_dashboard() -> None:
    """Print a dashboard for Grafana, as JSON to import."""
    import json

    from odradek.monitor.dashboard import dashboard

    click.echo(json.dumps(dashboard(), indent=1))
