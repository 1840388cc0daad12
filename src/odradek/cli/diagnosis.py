"""Waits for answers, and reports why none comes: a cluster without a metadata majority decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli import quorum
from odradek.cli.asking import unreachable
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
from odradek.client.wire import NoAnswer, SpeaksHttp

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata

R = TypeVar("R")
NOTHING: Mapping[str, str] = MappingProxyType({})


def require_majority(bootstrap: str, lost: str = "") -> None:
    """Ends the command when no majority of voters can be reached, or when the address is that of an HTTP server.

    Goes on if the cluster cannot describe its quorum, such as an old Kafka.
    """
    try:
        state = quorum.state(bootstrap)
    except SpeaksHttp as server:
        fail(str(server))
    except NoAnswer:
        return
    sentence = no_majority(state)
    if sentence is not None:
        fail(f"{lost}{sentence}.\n`odradek cluster health` lists the partitions that cannot be reached.", TIMED_OUT)


def patiently(bootstrap: str, answer: Future[R]) -> R:
    """Waits for an answer. Ends the command early if the cluster has no metadata majority."""
    try:
        return answer.result(PATIENCE_S)
    except TimeoutError:
        require_majority(bootstrap)
        return answer.result()


def silent_leaders(known: ClusterMetadata, partitions: Iterable[tuple[str, int]]) -> list[int]:
    """Leaders of these partitions that cannot be reached. Ignores partitions that do not exist."""
    leaders = {
        known.topics[topic].partitions[index].leader
        for topic, index in partitions
        if topic in known.topics and index in known.topics[topic].partitions
    }
    return unreachable({node: (each.host, each.port) for node, each in known.brokers.items() if node in leaders})


def require_leaders(bootstrap: str, known: ClusterMetadata, partitions: Iterable[tuple[str, int]]) -> None:
    """Ends the command when a leader cannot be reached and no metadata majority can elect another."""
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
    """Prints one line per name."""
    for name, _ in granted(bootstrap, answers, no_error=no_error, refused=refused):
        click.echo(done.format(name))


def granted(
    bootstrap: str,
    answers: Mapping[str, Future[R]],
    *,
    no_error: Mapping[str, str] = NOTHING,
    refused: Mapping[str, str] = NOTHING,
) -> Iterator[tuple[str, R]]:
    """Yields the successful answers. Prints each refusal; after the last answer, a refusal ends the command.

    `no_error` has sentences, by error name, for refusals that count as success; `refused` has them for the others.
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
