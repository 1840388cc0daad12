"""`odradek config`: shows and changes configs of topics, brokers and client metrics, and the levels of loggers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from odradek.cli.config_requests import APPEND, DELETE, KINDS, SET, SUBTRACT, Change, alter, described, listed
from odradek.cli.groups import Group
from odradek.cli.names import complete_topics
from odradek.cli.output import output_option, print_rows
from odradek.cli.remote import bootstrap_option

if TYPE_CHECKING:
    from odradek.protocol.messages.p32_describe_configs import DescribeConfigsResourceResult

# Kafka's codes for the source of a value.
SOURCES = {1: "topic", 2: "broker", 3: "all brokers", 4: "file", 5: "default", 6: "logger", 7: "client-metrics"}
SET_HERE = {"topic": (1,), "broker": (2, 3, 4), "client-metrics": (7,)}
ROOT_LOGGER = "root"


@click.group("config", cls=Group)
def command() -> None:
    """Show and change configs.

    \b
    KIND            NAME
    topic           the topic
    broker          the id of the broker, or `all` for the default of all brokers
    logger          the id of the broker; the keys are loggers, the values their levels, until it restarts
    client-metrics  a name of your choice for a subscription to metrics that clients push
    """


def _complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return complete_topics(ctx, param, incomplete) if ctx.params.get("kind") == "topic" else []


kind_argument = click.argument("kind", type=click.Choice(list(KINDS)))
name_argument = click.argument("name", shell_complete=_complete_name)


@command.command("ls")
@bootstrap_option
@output_option
@kind_argument
def list_names(bootstrap: str, output: str, kind: str) -> None:
    """List the names that have configs of this KIND, or can have them."""
    rows = [{"name": name} for name in sorted(listed(bootstrap, kind))]
    print_rows(rows, output, nothing=f"there are no {kind} configs; set one with `odradek config set {kind} NAME`")


@command.command("get")
@bootstrap_option
@output_option
@kind_argument
@name_argument
@click.argument("keys", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Include defaults.")
def get(bootstrap: str, output: str, kind: str, name: str, keys: tuple[str, ...], everything: bool) -> None:
    """Show the configs that are set for KIND NAME, or the values of KEYS."""
    entries = described(bootstrap, kind, name)
    unknown = [key for key in keys if key not in entries]
    if unknown:
        raise click.BadParameter(f"a {kind} has no config {unknown[0]!r}", param_hint="KEYS")
    rows = [
        {"config": key, "value": _shown(entry), "from": SOURCES.get(entry.config_source, str(entry.config_source))}
        for key, entry in sorted(entries.items())
        if (key in keys if keys else everything or _is_set(kind, entries, entry))
    ]
    print_rows(rows, output, nothing=f"nothing is set for {kind} {name}; --all shows the defaults")


@command.command("set")
@bootstrap_option
@kind_argument
@name_argument
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@click.option("--dry-run", is_flag=True, help="Validate only; change nothing.")
def set_(bootstrap: str, kind: str, name: str, settings: tuple[str, ...], dry_run: bool) -> None:
    """Set configs with KEY=VALUE. For lists, KEY+=VALUE appends and KEY-=VALUE removes."""
    operations = {"=": SET, "+=": APPEND, "-=": SUBTRACT}
    changes = []
    for text in settings:
        match = re.fullmatch(r"([^=+]+?)([+-]?=)(.*)", text, re.DOTALL)
        if match is None:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="SETTINGS")
        key, operation, value = match.groups()
        changes.append(Change(key, value, operations[operation]))
    _alter(bootstrap, kind, name, changes, dry_run=dry_run)


@command.command("unset")
@bootstrap_option
@kind_argument
@name_argument
@click.argument("keys", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Validate only; change nothing.")
def unset(bootstrap: str, kind: str, name: str, keys: tuple[str, ...], dry_run: bool) -> None:
    """Remove configs, so that the defaults apply again."""
    _alter(bootstrap, kind, name, [Change(key, None, DELETE) for key in keys], dry_run=dry_run)


@command.command("diff")
@bootstrap_option
@output_option
@kind_argument
@name_argument
@click.argument("other", shell_complete=_complete_name)
def diff(bootstrap: str, output: str, kind: str, name: str, other: str) -> None:
    """Show where two topics, or two brokers, differ."""
    one, two = described(bootstrap, kind, name), described(bootstrap, kind, other)
    rows = [
        {"config": key, name: _shown(one.get(key)), other: _shown(two.get(key))}
        for key in sorted(one.keys() | two.keys())
        if _shown(one.get(key)) != _shown(two.get(key))
    ]
    print_rows(rows, output, nothing="no difference")


def _is_set(kind: str, entries: dict[str, DescribeConfigsResourceResult], entry: DescribeConfigsResourceResult) -> bool:
    """Loggers have no defaults: a logger counts as set if its level differs from the root logger's."""
    if kind == "logger":
        return entry.name == ROOT_LOGGER or entry.value != entries[ROOT_LOGGER].value
    return entry.config_source in SET_HERE[kind]


def _alter(bootstrap: str, kind: str, name: str, changes: list[Change], *, dry_run: bool) -> None:
    alter(bootstrap, kind, name, changes, dry_run=dry_run)
    click.echo(f"{kind} {name}: {'valid; nothing was changed (--dry-run)' if dry_run else 'changed'}")


def _shown(entry: DescribeConfigsResourceResult | None) -> str | None:
    if entry is None:
        return None
    return "(secret)" if entry.is_sensitive else entry.value
