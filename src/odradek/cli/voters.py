"""Adds and removes voters of the metadata quorum. librdkafka has no call for it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import click

from odradek.base.errors import ErrorCode
from odradek.base.ids import uuid_from_text, uuid_text
from odradek.cli import quorum
from odradek.cli.asking import ask
from odradek.cli.consent import Consent
from odradek.cli.remote import FAILED, NOT_FOUND, TIMED_OUT, fail
from odradek.client.wire import name_of
from odradek.protocol.messages.p55_describe_quorum import ReplicaState
from odradek.protocol.messages.p80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from odradek.protocol.messages.p81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

_DIRECTORY = r"([A-Za-z0-9_-]{22})"
ASK_AGAIN_S = 0.25
# A retry may succeed.
_LATER = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_ADVICE: dict[int, str] = {
    ErrorCode.DUPLICATE_VOTER: " If that disk is lost, remove the voter first with: odradek cluster voter remove",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: " No leader was found. Find the cause with: odradek cluster health",
}
ATTEMPT_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVoter:
    node_id: int
    host: str
    port: int
    # None: the directory with which it follows the metadata log.
    directory_id: bytes | None


def new_voter(text: str) -> NewVoter:
    matched = re.fullmatch(rf"([0-9]{{1,9}})@(.+?):([0-9]{{1,5}})(?::{_DIRECTORY})?", text)
    if not matched or not 0 < int(matched[3]) < 1 << 16:
        raise click.BadParameter(
            f"{text!r} is not ID@HOST:PORT or ID@HOST:PORT:DIRECTORY-ID, such as 3@three.example:9093"
        )
    return NewVoter(
        node_id=int(matched[1]),
        host=matched[2].strip("[]"),
        port=int(matched[3]),
        directory_id=uuid_from_text(matched[4]) if matched[4] else None,
    )


def known_voter(text: str) -> tuple[int, bytes | None]:
    matched = re.fullmatch(rf"([0-9]{{1,9}})(?::{_DIRECTORY})?", text)
    if not matched:
        raise click.BadParameter(f"{text!r} is not ID or ID:DIRECTORY-ID, such as 3")
    return int(matched[1]), uuid_from_text(matched[2]) if matched[2] else None


def add(bootstrap: str, voter: NewVoter, timeout_s: float) -> None:
    """Waits until the node is an observer and has caught up, at most `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        state, listener = quorum.with_listener(bootstrap)
        if any(_is(each, voter.node_id, voter.directory_id) for each in state.current_voters):
            click.echo(f"node {voter.node_id} is a voter already")
            return
        following = [each for each in state.observers if _is(each, voter.node_id, voter.directory_id)]
        if voter.directory_id is not None or following:
            break
        if time.monotonic() >= deadline:
            fail(
                f"node {voter.node_id} does not follow the metadata log. Format its directory with "
                "--no-initial-controllers and start it as a controller. List observers with: odradek cluster quorum",
                NOT_FOUND,
            )
        time.sleep(ASK_AGAIN_S)
    # A node may have had several disks: takes the one of the last fetch.
    directory_id = voter.directory_id or max(following, key=lambda each: each.last_fetch_timestamp).replica_directory_id
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=ATTEMPT_MS,
        voter_id=voter.node_id,
        voter_directory_id=directory_id,
        listeners=[Listener(name=listener, host=voter.host, port=voter.port)],
    )
    _until_done(
        lambda: _answer(ask(bootstrap, request, 1, AddRaftVoterResponse)),
        voter.node_id,
        ErrorCode.DUPLICATE_VOTER,
        deadline,
    )
    click.echo(f"added voter {voter.node_id} with directory {uuid_text(directory_id)}")


def remove(bootstrap: str, node_id: int, directory_id: bytes | None, timeout_s: float, consent: Consent) -> None:
    voters = quorum.of_leader(bootstrap).current_voters
    found = [each for each in voters if _is(each, node_id, directory_id)]
    if not found:
        voting = ", ".join(f"{each.replica_id}:{uuid_text(each.replica_directory_id)}" for each in voters)
        fail(f"node {node_id} is not a voter with that directory. Voters: {voting}", NOT_FOUND)
    seat = found[0]
    left = ", ".join(str(each.replica_id) for each in voters if each is not seat) or "none"
    consent.show(
        [f"remove voter {node_id} with directory {uuid_text(seat.replica_directory_id)}; remaining voters: {left}"]
    )
    if not consent.to(f"Remove voter {node_id}?"):
        return
    deadline = time.monotonic() + timeout_s
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=seat.replica_directory_id)
    _until_done(
        lambda: _answer(ask(bootstrap, request, 0, RemoveRaftVoterResponse)),
        node_id,
        ErrorCode.VOTER_NOT_FOUND,
        deadline,
    )
    click.echo(f"removed voter {node_id} with directory {uuid_text(seat.replica_directory_id)}")


def _is(replica: ReplicaState, node_id: int, directory_id: bytes | None) -> bool:
    return replica.replica_id == node_id and directory_id in (None, replica.replica_directory_id)


def _answer(response: AddRaftVoterResponse | RemoveRaftVoterResponse) -> tuple[int, str]:
    return response.error_code, response.error_message or ""


def _until_done(attempt: Callable[[], tuple[int, str]], node_id: int, done_before: ErrorCode, deadline: float) -> None:
    code, words = attempt()
    again = False
    while code in _LATER and time.monotonic() < deadline:
        time.sleep(ASK_AGAIN_S)
        again = True
        code, words = attempt()
    # An earlier attempt may have been committed after its timeout.
    if code != ErrorCode.NONE and not (again and code == done_before):
        advice = _ADVICE.get(code, "")
        fail(
            f"node {node_id}: {words or name_of(code)}{advice} ({name_of(code)})",
            TIMED_OUT if code in _LATER else FAILED,
        )
