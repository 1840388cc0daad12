"""`odradek connect`: runs a connect service, and creates, shows and changes its connectors."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from odradek.cli import connect_dlq
from odradek.cli.connect_remote import Service, described, url_option
from odradek.cli.consent import Consent, destructive
from odradek.cli.groups import Group
from odradek.cli.output import Row, output_option, print_rows
from odradek.cli.remote import (
    bootstrap_option,
    client_options,
    complain,
    fail,
    key_value,
    require_somebody_there,
)

NONE = "no connectors; create one with `odradek connect create NAME connector.class=… …`"


@click.group("connect", cls=Group)
def command() -> None:
    """Run connectors: other systems' data into topics, and topics out to other systems."""


command.add_command(connect_dlq.command)


@command.command()
@bootstrap_option
@click.option(
    "--group-id",
    default="connect-cluster",
    show_default=True,
    help="One service of a group is active, the others stand by.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", default=8083, show_default=True, type=click.IntRange(0, 65535), help="The port; 0 picks a free one."
)
@click.option("--master", help="A Spark cluster, such as spark://host:7077. [default: this machine]")
@click.option(
    "--replication-factor", default=-1, type=click.IntRange(-1), help="Replicas of the service's three topics."
)
@click.option(
    "--linger",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds until an idle task leaves Spark.",
)
@click.option(
    "--exactly-once-source-support",
    type=click.Choice(["enabled", "disabled"]),
    default="enabled",
    show_default=True,
    help="Write records and offsets of sources in transactions.",
)
@client_options
def serve(
    bootstrap: str,
    group_id: str,
    host: str,
    port: int,
    master: str | None,
    replication_factor: int,
    linger: float,
    exactly_once_source_support: str,
    settings: Mapping[str, str],
) -> None:
    """Run a connect service until Ctrl-C. Its state is in topics: after a restart it resumes its connectors."""
    from odradek.client.records import ClientError
    from odradek.connect.foreground import serve_in_foreground
    from odradek.connect.service.settings import Settings
    from odradek.connect.storage.topic_log import StorageFailed
    from odradek.spark.java import NoJava
    from odradek.spark.session import NoSpark
    from odradek.web.listening import CannotListen

    require_somebody_there(bootstrap)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    wanted = Settings(
        bootstrap=bootstrap,
        group=group_id,
        host=host,
        port=port,
        master=master,
        replication_factor=replication_factor,
        linger_s=linger,
        exactly_once_sources=exactly_once_source_support == "enabled",
        clients=settings,
    )
    try:
        ended_well = serve_in_foreground(wanted, on_ready=_announce)
    except CannotListen as refused:
        fail(str(refused.strerror))
    except (StorageFailed, ClientError, NoJava, NoSpark) as failed:
        fail(str(failed))
    if not ended_well:
        raise SystemExit(1)


def _announce(url: str) -> None:
    click.echo(f"connect is ready: {url}")
    click.echo(f"Metrics: {url}/metrics")


@command.command("ls")
@url_option
@output_option
def list_connectors(url: str, output: str) -> None:
    """List the connectors."""
    found = Service(url).send("GET", "connectors", query={"expand": "status"})
    rows = [_row(name, each["status"]) for name, each in sorted(found.items())]
    print_rows(rows, output, nothing=NONE)


def _row(name: str, status: Mapping[str, Any]) -> Row:
    states = [task["state"] for task in status["tasks"]]
    return {
        "connector": name,
        "type": status["type"],
        "state": status["connector"]["state"],
        "tasks": len(states),
        "failed": sum(state == "FAILED" for state in states),
        "worker": status["connector"]["worker_id"],
    }


@command.command()
@click.argument("name")
@click.argument("options", nargs=-1, metavar="[OPTION=VALUE]...")
@click.option("--paused", is_flag=True, help="Create it without starting it.")
@url_option
@output_option
def create(name: str, options: tuple[str, ...], paused: bool, url: str, output: str) -> None:
    """Create a connector."""
    config = dict(key_value(text, "OPTION=VALUE", "OPTIONS") for text in options)
    body = {"name": name, "config": config, "initial_state": "PAUSED" if paused else "RUNNING"}
    change = f"Change it with: odradek connect apply -f FILE, or remove it with: odradek connect delete {name}"
    info = Service(url).send("POST", "connectors", body=body, advice={"already exists": change})
    print_rows([{"connector": info["name"], "type": info["type"], "result": "created"}], output, nothing="")


@command.command()
@click.option("-f", "--file", "files", multiple=True, required=True, type=click.Path(path_type=Path, allow_dash=True))
@url_option
@output_option
def apply(files: tuple[Path, ...], url: str, output: str) -> None:
    """Create or change the connectors that YAML or JSON files describe. Others are left alone."""
    service = Service(url)
    rows = []
    for name, config, state in (each for file in files for each in _described(file)):
        known = service.send("GET", "connectors", query={"expand": "info"})
        before = known.get(name, {}).get("info", {}).get("config")
        if before is None:
            service.send(
                "POST", "connectors", body={"name": name, "config": config, "initial_state": state or "RUNNING"}
            )
            rows.append({"connector": name, "result": "created"})
            continue
        is_same = before == {**config, "name": name}
        if not is_same:
            service.send("PUT", "connectors", name, "config", body=config)
        if state is not None:
            service.send("PUT", "connectors", name, {"RUNNING": "resume", "PAUSED": "pause"}.get(state, "stop"))
        rows.append({"connector": name, "result": "unchanged" if is_same else "changed"})
    print_rows(rows, output, nothing="the files describe no connectors")


def _described(file: Path) -> list[tuple[str, dict[str, str], str | None]]:
    if str(file) != "-" and not file.is_file():
        fail(f"there is no file {file}")
    return list(described(file))


@command.command("status")
@click.argument("name", required=False)
@url_option
@output_option
def show_status(name: str | None, url: str, output: str) -> None:
    """Show the state of a connector and its tasks, or of all. Exits 1 if something has failed."""
    service = Service(url)
    if name is None:
        found = [each["status"] for each in service.send("GET", "connectors", query={"expand": "status"}).values()]
    else:
        found = [service.get("connectors", name, "status")]
    rows = [row for status in found for row in _status_rows(status)]
    print_rows(rows, output, nothing=NONE)
    if output == "table":
        for status in found:
            _print_traces(status)
    if any(row["state"] == "FAILED" for row in rows):
        raise SystemExit(1)


def _status_rows(status: Mapping[str, Any]) -> list[Row]:
    parts = [(None, status["connector"]), *((task["id"], task) for task in status["tasks"])]
    return [
        {
            "connector": status["name"],
            "task": index,
            "state": part["state"],
            "worker": part["worker_id"],
            "error": _last_line(part.get("trace")),
        }
        for index, part in parts
    ]


def _last_line(trace: str | None) -> str | None:
    return None if trace is None else trace.strip().rpartition("\n")[2]


def _print_traces(status: Mapping[str, Any]) -> None:
    for part in (status["connector"], *status["tasks"]):
        if part["state"] == "FAILED" and part.get("trace"):
            who = status["name"] if "id" not in part else f"task {part['id']} of {status['name']}"
            complain(f"{who} failed:\n{part['trace'].strip()}")


def _order(verb: str, help_text: str) -> None:
    @command.command(verb, help=help_text)
    @click.argument("names", nargs=-1, required=True)
    @url_option
    @output_option
    def order(names: tuple[str, ...], url: str, output: str) -> None:
        service = Service(url)
        for name in names:
            service.send("PUT", "connectors", name, verb)
        done = {"pause": "paused", "resume": "resumed", "stop": "stopped"}[verb]
        print_rows([{"connector": name, "result": done} for name in names], output, nothing="")


_order("pause", "Pause connectors: their tasks end, and continue with resume.")
_order("resume", "Start paused or stopped connectors again.")
_order("stop", "Stop connectors: afterwards their offsets can be changed.")


@command.command()
@click.argument("name")
@click.option("--tasks", is_flag=True, help="Restart the tasks too.")
@click.option("--only-failed", is_flag=True, help="Restart only what has failed.")
@click.option("--task", type=click.IntRange(0), help="Restart this task alone.")
@url_option
@output_option
def restart(name: str, tasks: bool, only_failed: bool, task: int | None, url: str, output: str) -> None:
    """Restart a connector."""
    service = Service(url)
    if task is not None:
        service.send("POST", "connectors", name, "tasks", str(task), "restart")
    else:
        query = {"includeTasks": str(tasks).lower(), "onlyFailed": str(only_failed).lower()}
        service.send("POST", "connectors", name, "restart", query=query)
    print_rows([{"connector": name, "task": task, "result": "restarting"}], output, nothing="")


@command.command()
@click.argument("names", nargs=-1, required=True)
@url_option
@output_option
@destructive
def delete(names: tuple[str, ...], url: str, output: str, consent: Consent) -> None:
    """Delete connectors. Their offsets stay: a connector of the same name continues there."""
    consent.show(f"connector  {name}" for name in names)
    if not consent.to("Delete?"):
        return
    service = Service(url)
    for name in names:
        service.send("DELETE", "connectors", name)
    print_rows([{"connector": name, "result": "deleted"} for name in names], output, nothing="")


@command.command()
@click.argument("name")
@click.option("--set", "change", metavar="JSON", help='New offsets: \'[{"partition": {…}, "offset": {…}}]\'.')
@click.option("--reset", is_flag=True, help="Forget all offsets: the connector begins again.")
@url_option
@output_option
@destructive
def offsets(name: str, change: str | None, reset: bool, url: str, output: str, consent: Consent) -> None:
    """Show how far a connector has read; with --set or --reset, change it. The connector must be stopped for that."""
    service = Service(url)
    if change is not None:
        try:
            wanted = json.loads(change)
        except ValueError as wrong:
            fail(f"--set is not JSON: {wrong}")
        if not isinstance(wanted, list) or not all(isinstance(each, dict) for each in wanted):
            fail('--set needs a list: \'[{"partition": {…}, "offset": {…}}]\', as `offsets -o json` shows it')
        consent.show(f"{_json(each.get('partition'))}  ->  {_json(each.get('offset'))}" for each in wanted)
        if consent.to(f"Change the offsets of {name}?"):
            service.send("PATCH", "connectors", name, "offsets", body={"offsets": wanted})
    elif reset:
        consent.show([f"all offsets of {name}"])
        if consent.to(f"Forget the offsets of {name}?"):
            service.send("DELETE", "connectors", name, "offsets")
    found = service.get("connectors", name, "offsets")["offsets"]
    rows: list[Row] = [{"partition": each["partition"], "offset": each["offset"]} for each in found]
    if output == "table":
        rows = [{"partition": _json(row["partition"]), "offset": _json(row["offset"])} for row in rows]
    print_rows(rows, output, nothing=f"{name} has no offsets yet")


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@command.command()
@click.argument("name")
@url_option
@output_option
def logs(name: str, url: str, output: str) -> None:
    """Show the last log lines of a connector's tasks, and why runs failed."""
    lines = Service(url).get("connectors", name, "logs")
    if output != "table":
        rows = [
            {"at": line["at"], "task": line["task"], "level": line["level"], "text": line["text"]} for line in lines
        ]
        print_rows(rows, output, nothing="")
        return
    for line in lines:
        at = datetime.fromtimestamp(line["at"], UTC).isoformat(timespec="milliseconds")
        click.echo(f"{at} task {line['task']} {line['level']} {line['text']}")
    if not lines:
        click.echo(f"no log lines of {name} since this service is active", err=True)


@command.command("plugins")
@click.argument("name", required=False)
@url_option
@output_option
def list_plugins(name: str | None, url: str, output: str) -> None:
    """List the plug-ins of a service, or the options of one."""
    service = Service(url)
    if name is None:
        found = service.get("connector-plugins", connectorsOnly="false", names="true")
        rows = [
            # Kafka Connect's plug-ins have no other name than their class.
            {"plugin": each.get("name"), "type": each["type"], "version": each["version"], "class": each["class"]}
            for each in found
        ]
        print_rows(rows, output, nothing="no plug-ins are installed")
        return
    print_rows(
        [
            {
                "option": each["name"],
                "type": each["type"].lower(),
                "required": each["required"],
                "default": each["default_value"],
                "doc": each["documentation"],
            }
            for each in service.get("connector-plugins", name, "config")
        ],
        output,
        nothing="",
    )


@command.command()
@click.argument("options", nargs=-1, metavar="[OPTION=VALUE]...")
@click.option("-f", "--file", "files", multiple=True, type=click.Path(path_type=Path, allow_dash=True))
@url_option
@output_option
def validate(options: tuple[str, ...], files: tuple[Path, ...], url: str, output: str) -> None:
    """Check configs without creating connectors. Exits 1 if one has errors."""
    service = Service(url)
    configs = [{**config, "name": name} for file in files for name, config, _ in _described(file)]
    if options:
        configs.append({"name": "unnamed"} | dict(key_value(text, "OPTION=VALUE", "OPTIONS") for text in options))
    rows = []
    for config in configs:
        if "connector.class" not in config:
            fail("a config has no connector.class; list the plug-ins with: odradek connect plugins")
        path = ("connector-plugins", config["connector.class"], "config", "validate")
        rows += [
            {"connector": config["name"], "option": each["value"]["name"], "error": error}
            for each in service.send("PUT", *path, body=config)["configs"]
            for error in each["value"]["errors"]
        ]
    print_rows(rows, output, nothing="no errors")
    if rows:
        raise SystemExit(1)
