"""`odradek streams`: runs, shows and resets applications."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from odradek.cli.consent import Consent, destructive
from odradek.cli.groups import Group
from odradek.cli.output import Row, output_option, print_rows
from odradek.cli.remote import BOOTSTRAP_VARIABLE, NOT_FOUND, addresses, fail, require_somebody_there

if TYPE_CHECKING:
    from odradek.client.admin import Admin
    from odradek.pipeline.layout import Layout
    from odradek.pipeline.status import AppStatus, QueryStatus
    from odradek.streams.api.app import App
    from odradek.streams.graph.settings import Settings
    from odradek.streams.run.guests import Guest
    from odradek.streams.run.reset import ResetPlan

F = TypeVar("F", bound=Callable[..., Any])


@click.group("streams", cls=Group)
def command() -> None:
    """Run, inspect and reset streaming applications on Spark.

    APP is a file: `app.py`, or `app.py:name` if the file has several applications. `status` and `reset` also take the
    name of an application that has run from this state directory.
    """


def bootstrap_option(command: F) -> F:
    return click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        envvar=BOOTSTRAP_VARIABLE,
        callback=addresses,
        metavar="HOST[:PORT],...",
        help=f"Addresses of the cluster; overrides the application; also {BOOTSTRAP_VARIABLE}.",
    )(command)


def state_option(command: F) -> F:
    return click.option(
        "--state-dir",
        envvar="ODRADEK_STREAMS_STATE_DIR",
        help="Directory of checkpoints and views; overrides the application. [default: ./.odradek-streams]",
    )(command)


def _listener(_ctx: click.Context, _param: click.Parameter, said: str | None) -> tuple[str, int] | None:
    if said is None:
        return None
    host, _, port = said.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{said!r} is not an address; write HOST:PORT")
    return host.strip("[]"), int(port)


@command.command()
@click.argument("app")
@click.option(
    "--master",
    envvar="ODRADEK_STREAMS_MASTER",
    help="A Spark cluster, such as spark://host:7077. [default: this machine]",
)
@bootstrap_option
@state_option
@click.option(
    "--metrics",
    envvar="ODRADEK_STREAMS_METRICS",
    metavar="HOST:PORT|off",
    help="Where to serve /metrics for Prometheus. [default: 127.0.0.1:9464, or a free port if it is in use]",
)
@click.option(
    "--otlp", envvar="ODRADEK_STREAMS_OTLP", metavar="URL", help="Push metrics to an OpenTelemetry collector."
)
@click.option(
    "--dogstatsd", envvar="ODRADEK_STREAMS_DOGSTATSD", metavar="HOST:PORT", help="Push metrics to a Datadog agent."
)
@click.option(
    "--connect",
    metavar="HOST:PORT",
    callback=_listener,
    help="Also run a connect service in the application's Spark session, with its REST API at this address.",
)
def run(
    app: str,
    master: str | None,
    bootstrap: str | None,
    state_dir: str | None,
    metrics: str | None,
    otlp: str | None,
    dogstatsd: str | None,
    connect: tuple[str, int] | None,
) -> None:
    """Run an application until Ctrl-C. After a restart it resumes from its checkpoint."""
    from odradek.streams.api.loading import pickle_by_value
    from odradek.streams.graph.settings import ENVIRONMENT
    from odradek.streams.run import running

    # Before the file is loaded: an application that starts itself (`app.run()`) hears of it too.
    given = {"bootstrap": bootstrap, "state_dir": state_dir, "master": master}
    given |= {"metrics": metrics, "otlp": otlp, "dogstatsd": dogstatsd}
    os.environ.update({ENVIRONMENT[name]: value for name, value in given.items() if value is not None})
    with told():
        loaded, settings = _loaded(app, bootstrap, state_dir)
        require_somebody_there(settings.bootstrap)
        pickle_by_value(loaded)
        running.run(loaded.application, settings.located(), None, _connect_service(settings, connect))


def _connect_service(settings: Settings, address: tuple[str, int] | None) -> Guest | None:
    if address is None:
        return None
    from odradek.client.java_names import librdkafka_config
    from odradek.connect import hosting
    from odradek.connect.service.settings import Settings as ConnectSettings

    host, port = address
    clients = librdkafka_config(settings.config)
    wanted = ConnectSettings(
        bootstrap=settings.bootstrap, host=host, port=port, clients=clients, linger_s=hosting.LINGER_S
    )
    return hosting.HostedService(wanted)


@command.command()
@click.argument("app")
@click.argument("file", required=False, type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "svg"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@bootstrap_option
@state_option
def describe(app: str, file: Path | None, output: str, bootstrap: str | None, state_dir: str | None) -> None:
    """Show the queries and steps of an application without running it. Writes to FILE if one is given."""
    from odradek.streams.run.describe import as_data
    from odradek.streams.run.describe import describe as in_words
    from odradek.streams.run.drawing import draw

    with told():
        loaded, settings = _loaded(app, bootstrap, state_dir)
        application = replace(loaded.application, settings=settings)
        if output == "svg":
            description = draw(application)
        else:
            text = json.dumps(as_data(application), indent=2) if output == "json" else in_words(application)
            description = f"{text}\n"
    if file is None or str(file) == "-":
        click.echo(description, nl=False)
    else:
        file.write_text(description)
        click.echo(f"wrote {file}", err=True)


@command.command("ls")
@state_option
@output_option
def list_applications(state_dir: str | None, output: str) -> None:
    """List the applications that have run from a state directory."""
    from odradek.pipeline.layout import applications
    from odradek.pipeline.status import status

    known = [status(layout, None) for layout in applications(_state_dir(state_dir))]
    rows = [
        {
            "application": app.application,
            "state": "running" if app.runs_in else "not running",
            "pid": app.runs_in.pid if app.runs_in else None,
            "queries": [query.record.name for query in app.queries],
            "bootstrap": app.bootstrap,
        }
        for app in known
        if app is not None
    ]
    print_rows(rows, output, nothing=f"no application has run from {_state_dir(state_dir)}")


@command.command("status")
@click.argument("app", required=False)
@bootstrap_option
@state_option
@output_option
def show_status(app: str | None, bootstrap: str | None, state_dir: str | None, output: str) -> None:
    """Show state, throughput and lag of the queries of an application (a file or a name), or of all applications."""
    from odradek.pipeline.layout import applications

    with told():
        layouts = [_named(app, bootstrap, state_dir)[0]] if app else applications(_state_dir(state_dir))
        found = [known for known in (_status(layout, bootstrap) for layout in layouts) if known is not None]
    if app and not found:
        _fail_unknown(layouts[0])
    as_row = _shown if output == "table" else _data
    rows = [as_row(known, query) for known in found for query in known.queries]
    print_rows(rows, output, nothing=_nothing_to_show(found, state_dir))
    if output == "table":
        for known in found:
            _remark(known)


@command.command()
@click.argument("app")
@bootstrap_option
@state_option
@destructive
def reset(app: str, bootstrap: str | None, state_dir: str | None, consent: Consent) -> None:
    """Let the next run of an application (a file or a name) start from the beginning.

    Deletes its checkpoints, views, consumer groups and internal topics. Keeps the topics of its sinks.
    """
    from odradek.pipeline.lock import AlreadyRunning, holder_of
    from odradek.streams.run.reset import carry_out, plan_reset

    with told():
        layout, loaded, bootstrap = _named(app, bootstrap, state_dir)
        holder = holder_of(layout)
        if holder is not None and not consent.dry_run:
            raise AlreadyRunning(layout, holder)
        cluster = _cluster(bootstrap, loaded)
        planned = plan_reset(layout, cluster, loaded.graph if loaded else None)
        if planned.is_empty and loaded is None:
            _fail_unknown(layout)
        if planned.is_empty:
            click.echo(f"nothing to delete: {layout.app} has not run from {layout.state_dir}", err=True)
            return
        _print_plan(planned)
        if not consent.to(f"Delete this, so that {layout.app} starts from the beginning?"):
            return
        carry_out(planned, cluster)
        click.echo(f"\nthe next run of {layout.app} starts from the beginning", err=True)


@command.command("views")
@click.argument("app")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", default=8088, show_default=True, type=click.IntRange(0, 65535), help="The port; 0 picks a free one."
)
@bootstrap_option
@state_option
def serve_views(app: str, host: str, port: int, bootstrap: str | None, state_dir: str | None) -> None:
    """Serve the materialised tables of an application over HTTP, until Ctrl-C. Needs no Spark.

    GET /views, /views/NAME?prefix=&limit=, /views/NAME/KEY; /graph.svg and /status show the application.
    """
    from odradek.streams.run.serving import serve
    from odradek.web.listening import CannotListen

    with told():
        loaded, settings = _loaded(app, bootstrap, state_dir)
        require_somebody_there(settings.bootstrap)
        try:
            serve(loaded.application, settings, host, port, on_ready=_say_where)
        except CannotListen as refused:
            fail(str(refused.strerror))


def _say_where(url: str) -> None:
    click.echo(f"{url}/views", err=True)
    click.echo(f"metrics on {url}/metrics", err=True)


def _fail_unknown(layout: Layout) -> NoReturn:
    fail(f"{layout.app} has not run from {layout.state_dir}; `odradek streams ls` shows those that have", NOT_FOUND)


def _nothing_to_show(found: list[AppStatus], state_dir: str | None) -> str:
    if found:
        return f"{', '.join(app.application for app in found)}: no query was started by the last run"
    return f"no application has run from {_state_dir(state_dir)}"


# --- what the commands share


@contextmanager
def told() -> Iterator[None]:
    """Errors that know what to say are said, and nothing more."""
    from odradek.client.admin import UnknownTopic
    from odradek.client.records import ClientError
    from odradek.client.refused import RefusedConfig
    from odradek.pipeline.errors import StreamsError
    from odradek.spark.java import NoJava
    from odradek.spark.session import NoSpark
    from odradek.streams.api.loading import NoSuchFile
    from odradek.web.listening import CannotListen

    try:
        yield
    except NoSuchFile as missing:
        fail(str(missing), NOT_FOUND)
    except CannotListen as refused:
        fail(str(refused.strerror))
    except (StreamsError, ClientError, UnknownTopic, RefusedConfig, NoJava, NoSpark) as problem:
        fail(str(problem))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _loaded(app: str, bootstrap: str | None, state_dir: str | None) -> tuple[App, Settings]:
    from odradek.streams.api.loading import load_app

    loaded = load_app(app)
    return loaded, loaded.settings.from_environment().over(bootstrap=bootstrap, state_dir=state_dir)


def _named(app: str, bootstrap: str | None, state_dir: str | None) -> tuple[Layout, App | None, str]:
    """A file, or the name of an application that has left its record."""
    from odradek.pipeline.layout import Layout
    from odradek.pipeline.recording import AppRecord
    from odradek.streams.graph.settings import DEFAULT_BOOTSTRAP

    if ".py" in app:
        loaded, settings = _loaded(app, bootstrap, state_dir)
        return Layout(settings.state_dir, loaded.name), loaded, settings.bootstrap
    layout = Layout(_state_dir(state_dir), app)
    record = AppRecord.read(layout.status)
    return layout, None, bootstrap or (record.bootstrap if record else DEFAULT_BOOTSTRAP)


def _state_dir(given: str | None) -> str:
    from odradek.pipeline.layout import DEFAULT_STATE_DIR

    return given or DEFAULT_STATE_DIR


def _cluster(bootstrap: str, app: App | None = None) -> Admin:
    from odradek.client.admin import Admin
    from odradek.client.java_names import librdkafka_config

    require_somebody_there(bootstrap)
    return Admin(bootstrap, librdkafka_config(app.settings.config) if app else {})


def _status(layout: Layout, bootstrap: str | None) -> AppStatus | None:
    """What is stored, and what the cluster knows of it: without a broker the rest is still worth seeing."""
    from odradek.client.addresses import BadAddress, parse_addresses
    from odradek.client.knocking import refusals
    from odradek.pipeline.recording import AppRecord
    from odradek.pipeline.status import status

    record = AppRecord.read(layout.status)
    if record is None:
        return None
    where = bootstrap or record.bootstrap
    try:
        refused = refusals(parse_addresses(where))
    except BadAddress as wrong:
        fail(str(wrong))
    if refused:
        why = next(iter(refused.values()))
        click.echo(f"warning: no answer from {where} ({why}): BEHIND and LAG are not known", err=True)
    return status(layout, None if refused else _cluster(where))


def _shown(app: AppStatus, query: QueryStatus) -> Row:
    record, behind = query.record, query.behind
    return {
        "query": f"{app.application}.{record.name}",
        "state": query.state,
        "in/s": record.input_rows_per_s,
        "done/s": record.processed_rows_per_s,
        "batch_ms": record.batch_ms,
        "planning": record.planning_ms,
        "execution": record.execution_ms,
        "state_rows": record.state_rows,
        "state_bytes": record.state_bytes,
        "late": record.late_rows,
        "behind": None if behind is None else f"{behind.seconds_max:.1f} s",
        "lag": None if behind is None else [f"{topic}:{left}" for topic, left in sorted(behind.records.items())],
    }


def _data(app: AppStatus, query: QueryStatus) -> Row:
    record, behind = query.record, query.behind
    return {
        "application": app.application,
        "query": f"{app.application}.{record.name}",
        "state": query.state,
        "started": _moment(app),
        "batch": record.batch,
        "input_rows_per_s": record.input_rows_per_s,
        "processed_rows_per_s": record.processed_rows_per_s,
        "batch_ms": record.batch_ms,
        "planning_ms": record.planning_ms,
        "execution_ms": record.execution_ms,
        "event_time": record.event_time or record.watermark,
        "state_rows": record.state_rows,
        "state_bytes": record.state_bytes,
        "late_rows": record.late_rows,
        "seconds_behind": None if behind is None else behind.seconds_max,
        "lag": None if behind is None else behind.records,
        "warning": record.warning if app.runs_in else None,
        "error": record.error,
    }


def _remark(app: AppStatus) -> None:
    """What a table has no room for: that it is starting, that it cannot keep up, why it failed."""
    if app.is_starting:
        for_s = time.time() - app.started_s
        click.echo(
            f"\n{app.application} has been starting for {for_s:.0f} s, since {_moment(app)}: {app.runs_in}", err=True
        )
    for query in app.queries:
        name = f"{app.application}.{query.record.name}"
        if query.record.warning and app.runs_in:
            click.echo(f"\nwarning: {name} cannot keep up: {query.record.warning}", err=True)
        if query.record.error:
            click.echo(f"\n{name} failed:\n{query.record.error}", err=True)


def _moment(app: AppStatus) -> str:
    return datetime.fromtimestamp(app.started_s, UTC).isoformat(timespec="seconds")


def _print_plan(planned: ResetPlan) -> None:
    parts = {
        "checkpoint": [str(path) for path in planned.checkpoints],
        "view": [str(path) for path in planned.views],
        "group": planned.groups,
        "topic": planned.topics,
    }
    for what, names in parts.items():
        for name in names:
            click.echo(f"{what:10}  {name}")
    for checkpoint in planned.out_of_reach:
        click.echo(f"not deleted, because only Spark can reach it; delete it yourself: {checkpoint}", err=True)
    for other in planned.left_alone:
        click.echo(f"not deleted, because it may belong to another application: {other}", err=True)
