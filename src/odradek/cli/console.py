"""`odradek console`: the web console."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.log_format import log_format_option
from odradek.cli.reasons import reason
from odradek.cli.remote import bootstrap_option, key_value

if TYPE_CHECKING:
    from odradek.console.settings import ConsoleSettings

PASSWORD_VARIABLE = "ODRADEK_CONSOLE_PASSWORD"  # noqa: S105 - the name of a variable


@click.command("console")
@bootstrap_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 picks a free port.")
@click.option("--name", "names", multiple=True, metavar="HOST", help="A host name that browsers use for the console.")
@click.option("--prefix", default="", metavar="/PATH", help="The path under which a reverse proxy serves the console.")
@click.option("--read-only", is_flag=True, help="Show everything, and change nothing.")
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the password, needed to listen on other addresses than loopback; also ODRADEK_CONSOLE_PASSWORD.",
)
@click.option("--no-password", is_flag=True, help="With --name: the proxy in front of the console asks for a password.")
@click.option(
    "--connect",
    multiple=True,
    metavar="URL",
    envvar="ODRADEK_CONNECT",
    help="Connect's REST API; repeatable; also ODRADEK_CONNECT. "
    "[default: http://127.0.0.1:8083, if it works for this cluster]",
)
@click.option(
    "--node-http",
    "nodes",
    multiple=True,
    metavar="ID=URL",
    help="The HTTP of a broker, for its metrics; repeatable. [default: found by the broker's http.listener]",
)
@click.option("--schema-registry", metavar="URL", default="", help="A schema registry, to decode Avro and Protobuf.")
@click.option("--or-any-port", is_flag=True, hidden=True, help="Take a free port if this one is in use.")
@click.option("--nice", type=click.IntRange(0, 19), default=0, hidden=True, help="Leave the CPU to other processes.")
@click.option("--until-stdin-ends", is_flag=True, hidden=True, help="Stop when the parent process is gone.")
@log_format_option
def command(
    bootstrap: str,
    host: str,
    port: int,
    names: tuple[str, ...],
    prefix: str,
    read_only: bool,
    password_file: Path | None,
    no_password: bool,
    connect: tuple[str, ...],
    nodes: tuple[str, ...],
    schema_registry: str,
    or_any_port: bool,
    nice: int,
    until_stdin_ends: bool,
    log_format: str,
) -> None:
    """Show a cluster in the browser, until Ctrl-C."""
    if nice:
        os.nice(nice)  # before the imports, which take most of the CPU of the start

    from odradek.console.settings import ConsoleSettings

    settings = ConsoleSettings(
        bootstrap=bootstrap,
        host=host,
        port=port,
        or_any_port=or_any_port,
        prefix=_prefix(prefix),
        names=names,
        read_only=read_only,
        password=_password(password_file),
        no_password=no_password,
        connect=tuple(_url(each, "--connect") for each in connect),
        schema_registry=_url(schema_registry, "--schema-registry") if schema_registry else "",
        nodes_http=dict(map(_node, nodes)),
    )
    _run(settings, log_format, until_stdin_ends)


def _run(settings: ConsoleSettings, log_format: str, until_stdin_ends: bool) -> None:
    import logging
    import signal
    import threading

    from odradek.console.security import Unprotected
    from odradek.console.service import ended, serve
    from odradek.node.logs import log_to_stderr

    log_to_stderr(logging.WARNING, log_format)
    # Brokers that cannot be reached are on the pages.
    logging.getLogger("odradek.client").setLevel(logging.CRITICAL)
    over = ended(sys.stdin.buffer) if until_stdin_ends else threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    try:
        serve(settings, lambda url: click.echo(f"Console: {url}"), over.wait)
    except (OSError, Unprotected) as refused:
        raise click.ClickException(reason(refused)) from refused


def _prefix(text: str) -> str:
    found = text.rstrip("/")
    if found and not found.startswith("/"):
        raise click.BadParameter(f"{text!r} does not begin with a slash", param_hint="--prefix")
    return found


def _password(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(PASSWORD_VARIABLE) or None
    text = file.read_text().strip()
    if not text:
        raise click.BadParameter(f"{file} is empty", param_hint="--password-file")
    return text


def _node(text: str) -> tuple[int, str]:
    broker, url = key_value(text, "ID=URL", "--node-http")
    if not broker.isdecimal():
        raise click.BadParameter(f"{text!r}: {broker!r} is not a broker id", param_hint="--node-http")
    return int(broker), _url(url, "--node-http")


def _url(text: str, option: str) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise click.BadParameter(f"{text!r} is not a URL with http or https", param_hint=option)
    return text.rstrip("/")
