"""Runs commands against an embedded broker, in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from odradek.cli.main import main
from odradek.testing import Embedded


def odradek_command(broker: Embedded, *arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(main, arguments, input=stdin, env={"ODRADEK_BOOTSTRAP": broker.bootstrap_servers})


def succeed(broker: Embedded, *arguments: str, stdin: str | bytes = "") -> str:
    result = odradek_command(broker, *arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout
