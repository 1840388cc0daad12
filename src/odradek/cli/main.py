"""Entry point of the command line. Imports a subcommand's module only when it is called: `--help` stays fast."""

from __future__ import annotations

import importlib

import click

from odradek import __version__
from odradek.cli.imports import uncollected

# name -> (module, one line for --help)
COMMANDS = {
    "up": ("odradek.cli.up", "Run a broker in the foreground."),
    "node": ("odradek.cli.node", "Format and start a cluster node from a properties file."),
    "cluster": ("odradek.cli.cluster", "Show and change brokers, metadata quorum and partition placement."),
    "topic": ("odradek.cli.topic", "List, create, describe, trim and delete topics; add partitions."),
    "produce": ("odradek.cli.produce", "Write records, one per line of input."),
    "consume": ("odradek.cli.consume", "Read records. Without --group, commit nothing."),
    "group": ("odradek.cli.group", "List, describe, reset and delete consumer groups."),
    "txn": ("odradek.cli.txn", "List, describe and abort transactions; find hanging ones."),
    "config": ("odradek.cli.config", "Show and change the configs of topics and brokers."),
    "console": ("odradek.cli.console", "Show a cluster in the browser."),
    "monitor": ("odradek.cli.monitor", "Watch consumer lag: Burrow's HTTP API and metrics."),
    "log": ("odradek.cli.log", "Dump and verify segment files."),
    "perf": ("odradek.cli.perf", "Measure produce and consume throughput and latency."),
    "doctor": ("odradek.cli.doctor", "Check this machine and the cluster for problems."),
    "metrics": ("odradek.cli.metrics", "List metrics; print Prometheus alert rules and a Grafana dashboard."),
    "streams": ("odradek.cli.streams", "Run, inspect and reset streaming applications on Spark."),
    "connect": ("odradek.cli.connect", "Run connectors, and create, show and change them."),
    "demo": ("odradek.cli.demo", "Run a live demo."),
    "sim": ("odradek.cli.sim", "Run the broker under deterministic simulation."),
    "completion": ("odradek.cli.completion", "Print shell completion of commands, topics and groups."),
}


class LazyCommands(click.Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with uncollected():
            module = importlib.import_module(COMMANDS[cmd_name][0])
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from difflib import get_close_matches

            if near := get_close_matches(args[0], COMMANDS, n=1):
                ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
            raise

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as missing:
            from odradek.cli.extras import missing_extra

            told = missing_extra(missing)
            if told is None:
                raise
            raise told from None

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="odradek")
def main() -> None:
    """Odradek: a streaming platform in Python that every Kafka client can talk to.

    Start with `odradek up`. In other terminals: `odradek produce greetings`, `odradek consume greetings -o beginning`.
    """
