"""`odradek connect dlq`: lists and shows the dead letters of connectors, and writes them to their topics again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli.connect_remote import Service, url_option
from odradek.cli.consent import Consent, destructive
from odradek.cli.groups import Group
from odradek.cli.output import Row, output_option, print_rows
from odradek.cli.remote import (
    NOT_FOUND,
    admin_client,
    bootstrap_option,
    client_options,
    fail,
    refusals_told,
    require_somebody_there,
    require_topics,
)

if TYPE_CHECKING:
    from odradek.connect.dead_letter_topics import DeadLetterTopic, Letter, Selection

F = TypeVar("F", bound=Callable[..., Any])

TEXT_CHARS_MAX = 60
NONE = "no dead letters"


@click.group("dlq", cls=Group)
def command() -> None:
    """List, show and redrive the dead letters of connectors."""


def _selecting(function: F) -> F:
    for option in (
        click.option("--offset", "places", multiple=True, metavar="PARTITION@OFFSET", help="This dead letter."),
        click.option("--exception", help="Dead letters with this class of exception."),
        click.option("--stage", help="Dead letters that failed in this stage, as VALUE_CONVERTER."),
        click.option("--connector", help="Dead letters of this connector."),
    ):
        function = option(function)
    return function


def _selection(
    connector: str | None, stage: str | None, exception: str | None, places: tuple[str, ...] = ()
) -> Selection:
    from odradek.connect.dead_letter_topics import Selection

    return Selection(
        connector=connector,
        stage=None if stage is None else stage.upper(),
        exception=exception,
        places=frozenset(map(_place, places)),
    )


def _place(text: str) -> tuple[int, int]:
    partition, at, offset = text.partition("@")
    if not at or not partition.isdecimal() or not offset.isdecimal():
        raise click.BadParameter(f"{text!r} is not PARTITION@OFFSET, as 0@41", param_hint="--offset")
    return int(partition), int(offset)


def _topic(bootstrap: str, name: str, settings: Mapping[str, str]) -> DeadLetterTopic:
    from odradek.connect.dead_letter_topics import DeadLetterTopic

    require_somebody_there(bootstrap)
    with refusals_told(bootstrap):
        require_topics([name], admin_client(bootstrap).list_topics(timeout=15).topics)
    return DeadLetterTopic(bootstrap, name, dict(settings))


@command.command("ls")
@click.argument("topics", nargs=-1)
@bootstrap_option
@client_options
@url_option
@output_option
def list_letters(topics: tuple[str, ...], bootstrap: str, settings: Mapping[str, str], url: str, output: str) -> None:
    """Count dead letters by connector, stage and exception.

    Without TOPICS, the connect service is asked for the dead-letter topics of its connectors.
    """
    names = topics or _topics_of_connectors(bootstrap, url)
    rows = [row for name in names for row in _counted(name, _topic(bootstrap, name, settings))]
    print_rows(rows, output, nothing=NONE)


def _topics_of_connectors(bootstrap: str, url: str) -> list[str]:
    """A topic that no record has reached yet does not exist."""
    found = Service(url).send("GET", "connectors", query={"expand": "info"})
    configs = [each["info"]["config"] for each in found.values()]
    named = {config["errors.deadletterqueue.topic.name"] for config in configs if _has_letters(config)}
    with refusals_told(bootstrap):
        known = admin_client(bootstrap).list_topics(timeout=15).topics
    return sorted(named & known.keys())


def _has_letters(config: Mapping[str, str]) -> bool:
    return bool(config.get("errors.deadletterqueue.topic.name"))


def _counted(name: str, topic: DeadLetterTopic) -> list[Row]:
    rows: dict[tuple[str | None, ...], dict[str, Any]] = {}
    for letter in topic.letters(_selection(None, None, None)):
        group = tuple(letter.context(part) for part in ("connector.name", "stage", "exception.class.name"))
        at = None if letter.record.timestamp is None else letter.record.timestamp.isoformat(timespec="milliseconds")
        row = rows.setdefault(
            group,
            {"topic": name, "connector": group[0], "stage": group[1], "exception": group[2], "letters": 0, "first": at},
        )
        row["letters"] += 1
        row["last"] = at
    return list(rows.values())


@command.command("show")
@click.argument("topic")
@_selecting
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="Show at most this many.")
@bootstrap_option
@client_options
@output_option
def show(
    topic: str,
    connector: str | None,
    stage: str | None,
    exception: str | None,
    places: tuple[str, ...],
    limit: int,
    bootstrap: str,
    settings: Mapping[str, str],
    output: str,
) -> None:
    """Show dead letters: where each came from, why it failed, and its content. -o json has the stack traces."""
    letters = _topic(bootstrap, topic, settings).letters(_selection(connector, stage, exception, places), limit)
    print_rows([_shown(letter, full=output != "table") for letter in letters], output, nothing=NONE)


def _shown(letter: Letter, *, full: bool) -> Row:
    at = letter.record.timestamp
    row: Row = {
        "letter": f"{letter.record.partition}@{letter.record.offset}",
        "at": None if at is None else at.isoformat(timespec="milliseconds"),
        "connector": letter.context("connector.name"),
        "task": letter.context("task.id"),
        "stage": letter.context("stage"),
        "exception": letter.context("exception.class.name"),
        "message": _text(letter.context("exception.message"), full=full),
        "origin": None if letter.origin is None else str(letter.origin),
        "key": _text(letter.record.key, full=full),
        "value": _text(letter.record.value, full=full),
    }
    return {**row, "stacktrace": letter.context("exception.stacktrace")} if full else row


def _text(data: bytes | str | None, *, full: bool) -> str | None:
    if data is None:
        return None
    text = data if isinstance(data, str) else data.decode(errors="backslashreplace")
    return text if full or len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"


@command.command("redrive")
@click.argument("topic")
@_selecting
@click.option("--to", metavar="TOPIC", help="Write to this topic instead of the one each record came from.")
@click.option("--limit", default=1000, show_default=True, type=click.IntRange(1), help="Redrive at most this many.")
@bootstrap_option
@client_options
@output_option
@destructive
def redrive(
    topic: str,
    connector: str | None,
    stage: str | None,
    exception: str | None,
    places: tuple[str, ...],
    to: str | None,
    limit: int,
    bootstrap: str,
    settings: Mapping[str, str],
    output: str,
    consent: Consent,
) -> None:
    """Write dead letters to the topics they came from, for their connector to try again.

    A letter is redriven once: the same command again takes the next ones.
    """
    from odradek.connect.dead_letter_topics import NoOrigin

    selection = _selection(connector, stage, exception, places)
    letters = _topic(bootstrap, topic, settings)
    with refusals_told(bootstrap):
        known = admin_client(bootstrap).list_topics(timeout=15).topics
    if to is not None:
        require_topics([to], known)
    planned = {to or (letter.origin.topic if letter.origin else None) for letter in letters.letters(selection, limit)}
    for name in planned - {None}:
        if name not in known:
            fail(f"the topic {name!r}, from which dead letters came, does not exist. Name another with --to", NOT_FOUND)
    if not planned:
        print_rows([], output, nothing=NONE)
        return
    consent.show(_plan(letter, to) for letter in letters.letters(selection, limit))
    if not consent.to("Redrive?"):
        return
    try:
        rows: list[Row] = [
            {"letter": f"{letter.record.partition}@{letter.record.offset}", "topic": to or str(letter.origin)}
            for letter in letters.redrive(selection, to, limit)
        ]
    except NoOrigin as unknown:
        fail(str(unknown))
    print_rows(rows, output, nothing=NONE)


def _plan(letter: Letter, to: str | None) -> str:
    return f"{letter.place}  ->  {to or letter.origin or 'unknown: name the topic with --to'}"
