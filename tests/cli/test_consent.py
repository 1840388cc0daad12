"""Destructive commands show their plan, ask for confirmation at a terminal, and refuse in a script without --yes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from odradek.testing import Embedded
from support.command_line import odradek_command, succeed

TOPIC_DELETE = ["topic", "delete", "orders"]
TRIM = ["topic", "trim", "orders", "--before", "1"]
GROUP_DELETE = ["group", "delete", "billing"]
GROUP_RESET = ["group", "reset", "billing", "--to", "beginning"]
UNCLEAN = ["cluster", "elect", "--unclean", "orders:0"]
VOTER_REMOVE = ["cluster", "voter", "remove", "1"]

SHOWN = [
    (TOPIC_DELETE, "delete orders: 1 partition, all records"),
    (TRIM, "delete the records of orders-0 before offset 1"),
    (GROUP_DELETE, "delete billing: empty, 1 committed offset"),
    (GROUP_RESET, "orders          0    2    0"),
    (UNCLEAN, "elect an unclean leader of orders-0: records that only other replicas have are lost"),
    (VOTER_REMOVE, "remaining voters: none"),
]


@pytest.fixture
def orders(odradek: Embedded) -> Embedded:
    succeed(odradek, "topic", "create", "orders", "-p", "1")
    succeed(odradek, "produce", "orders", stdin="1\n2\n3\n")
    succeed(odradek, "consume", "orders", "-g", "billing", "-o", "beginning", "-n", "2")
    return odradek


def what_there_is(broker: Embedded) -> tuple[str, str, str]:
    return (
        succeed(broker, "topic", "describe", "orders", "-o", "json"),
        succeed(broker, "group", "describe", "billing", "-o", "json"),
        succeed(broker, "cluster", "info", "-o", "json"),
    )


def at_a_terminal(broker: Embedded, *arguments: str, answer: str) -> tuple[int, str]:
    """The exit status, and the terminal output."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "odradek.cli", *arguments]
    environment = os.environ | {"ODRADEK_BOOTSTRAP": broker.bootstrap_servers}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    os.write(ours, answer.encode() + b"\n")
    screen = b""
    try:
        while part := os.read(ours, 4096):
            screen += part
    except OSError:  # Linux reports the end of a terminal as an error
        pass
    os.close(ours)
    return process.wait(60), screen.decode()


@pytest.mark.parametrize(("command", "plan"), SHOWN)
def test_without_a_terminal_the_plan_is_shown_and_nothing_changes(
    orders: Embedded, command: list[str], plan: str
) -> None:
    before = what_there_is(orders)
    refused = odradek_command(orders, *command, stdin="y\n")
    assert refused.exit_code == 2
    assert plan in refused.output
    reason = "there is no terminal to ask for confirmation. Use --yes to confirm"
    assert refused.stderr.endswith(f"Error: nothing was changed: {reason}\n")
    assert what_there_is(orders) == before


@pytest.mark.parametrize(("command", "plan"), SHOWN)
@pytest.mark.parametrize("yes", [[], ["--yes"]])
def test_a_dry_run_shows_the_plan_and_changes_nothing(
    orders: Embedded, command: list[str], plan: str, yes: list[str]
) -> None:
    before = what_there_is(orders)
    shown = odradek_command(orders, *command, "--dry-run", *yes)
    assert shown.exit_code == 0, shown.output
    assert plan in shown.stdout
    assert shown.stderr == "nothing was changed (--dry-run)\n"
    assert what_there_is(orders) == before


@pytest.mark.parametrize(("command", "plan"), SHOWN[:3])
def test_an_unconfirmed_command_changes_nothing(orders: Embedded, command: list[str], plan: str) -> None:
    before = what_there_is(orders)
    status, screen = at_a_terminal(orders, *command, answer="")
    assert (status, plan in screen, "[y/N]" in screen) == (1, True, True), screen
    assert what_there_is(orders) == before


@pytest.mark.parametrize(
    ("command", "done"),
    [
        (TOPIC_DELETE, "deleted orders"),
        (TRIM, "PARTITION  START"),
        (GROUP_DELETE, "deleted billing"),
        (GROUP_RESET, "group billing was reset"),
    ],
)
def test_a_confirmed_command_is_executed(orders: Embedded, command: list[str], done: str) -> None:
    status, screen = at_a_terminal(orders, *command, answer="y")
    assert (status, done in screen) == (0, True), screen


def test_a_preferred_election_runs_without_confirmation(orders: Embedded) -> None:
    assert succeed(orders, "cluster", "elect", "orders:0") == "orders-0 needs no election\n"
    refused = odradek_command(orders, "cluster", "elect", "--dry-run")
    assert (refused.exit_code, "--dry-run is for --unclean" in refused.stderr) == (2, True)


def test_deleting_an_unknown_group_prints_a_sentence(orders: Embedded) -> None:
    for more in ([], ["--yes"]):
        nobody = odradek_command(orders, "group", "delete", "nobody", *more)
        assert nobody.exit_code == 3
        assert nobody.stderr == 'Error: group "nobody" does not exist. List groups with: odradek group ls\n'
