"""Waiting for answers, and why they do not come: a cluster without a majority of its voters decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli import quorum
from odradek.cli.asking import NoAnswer, unreachable
from odradek.cli.health import no_majority
from odradek.cli.remote import (
    FAILED,
    NOT_FOUND,
    NOT_FOUND_CODES,
    PATIENCE_S,
    TIMED_OUT,
    TIMEOUT_CODES,
    complain,
    fail,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata

R = TypeVar("R")
NOTHING: Mapping[str, str] = MappingProxyType({})


def require_majority(bootstrap: str, lost: str = "") -> None:
    """Ends the command when no majority can be reached. Who cannot say, as an old Kafka, is believed to have one."""
    try:
        state = quorum.state(bootstrap)
    except NoAnswer:
        return
    sentence = no_majority(state)
    if sentence is not None:
        fail(f"{lost}{sentence}.\n`odradek cluster health` tells which partitions are out of reach.", TIMED_OUT)


def patiently(bootstrap: str, answer: Future[R]) -> R:
    """As long as there is hope."""
    try:
        return answer.result(PATIENCE_S)
    except TimeoutError:
        require_majority(bootstrap)
        return answer.result()


def silent_leaders(known: ClusterMetadata, partitions: Iterable[tuple[str, int]]) -> list[int]:
    """Who is said to lead these partitions, as far as they exist, and cannot be reached."""
    leaders = {
        known.topics[topic].partitions[index].leader
        for topic, index in partitions
        if topic in known.topics and index in known.topics[topic].partitions
    }
    return unreachable({node: (each.host, each.port) for node, each in known.brokers.items() if node in leaders})


def require_leaders(bootstrap: str, known: ClusterMetadata, partitions: Iterable[tuple[str, int]]) -> None:
    """A leader that is away is followed by another one, unless nobody can decide that."""
    if silent_leaders(known, partitions):
        require_majority(bootstrap)


def each_told(
    bootstrap: str,
    answers: Mapping[str, Future[Any]],
    done: str,
    *,
    no_error: Mapping[str, str] = NOTHING,
    refused: Mapping[str, str] = NOTHING,
) -> None:
    """One line per name."""
    for name, _ in granted(bootstrap, answers, no_error=no_error, refused=refused):
        click.echo(done.format(name))


def granted(
    bootstrap: str,
    answers: Mapping[str, Future[R]],
    *,
    no_error: Mapping[str, str] = NOTHING,
    refused: Mapping[str, str] = NOTHING,
) -> Iterator[tuple[str, R]]:
    """What was not refused. A refusal is told with its name and hides no others; in the end it ends the command.

    `no_error` has what is said of refusals, by their names, that are none, `refused` our sentences for others.
    """
    from confluent_kafka import KafkaException

    refusals, unanswered = [], None
    for name, answer in answers.items():
        try:
            result = patiently(bootstrap, answer)
        except KafkaException as refusal:
            error = refusal.args[0]
            if error.name() in TIMEOUT_CODES:
                unanswered = refusal
            elif error.name() in no_error:
                click.echo(no_error[error.name()].format(name))
            else:
                refusals.append(error.name())
                ours = refused.get(error.name())
                complain(ours.format(name) if ours else f"{name}: {error.str()} ({error.name()})")
        else:
            yield name, result
    if unanswered is not None:
        raise unanswered
    if refusals:
        raise SystemExit(NOT_FOUND if set(refusals) <= NOT_FOUND_CODES else FAILED)
