"""What commands ask brokers without librdkafka, and what they print without an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from odradek.cli.remote import PATIENCE_S, REQUEST_TIMEOUT_S, TIMED_OUT, fail, fail_unreachable
from odradek.client.addresses import Address, parse_addresses
from odradek.client.knocking import refusal
from odradek.client.wire import Late, NoAnswer, Unreachable, connected, decoded, exchange, framed
from odradek.protocol.schema import Message

R = TypeVar("R", bound=Message)

CLIENT_ID = "odradek-cli"


def ask(bootstrap: str, request: Message, version: int, response: type[R]) -> R:
    """The answer of the first broker that gives one; any broker answers for the cluster. Ends the command without one.

    If the answer is slow because there is no metadata majority, ends the command with that reason.
    """
    from odradek.cli.diagnosis import require_majority

    with no_answer_told(bootstrap):
        return answer(bootstrap, request, version, response, while_waiting=lambda: require_majority(bootstrap))


@contextmanager
def no_answer_told(bootstrap: str) -> Iterator[None]:
    try:
        yield
    except Unreachable as nobody:
        fail_unreachable(bootstrap, str(nobody))
    except Late as slow:
        fail(str(slow), TIMED_OUT)
    except NoAnswer as nonsense:
        fail(str(nonsense))


def answer(
    bootstrap: str,
    request: Message,
    version: int,
    response: type[R],
    *,
    within_s: float = REQUEST_TIMEOUT_S,
    while_waiting: Callable[[], None] | None = None,
) -> R:
    reply = _first_reply(bootstrap, framed(request, version, CLIENT_ID), within_s, while_waiting)
    return decoded(reply, request, version, response, bootstrap)


def is_reachable(host: str, port: int, within_s: float = 1.0) -> bool:
    return refusal(Address(host, port), within_s) is None


def unreachable(addresses: Mapping[int, tuple[str, int]]) -> list[int]:
    """Ids of the nodes that accept no connection. Tries all at once, because each may take until its timeout."""
    if not addresses:
        return []
    with ThreadPoolExecutor(len(addresses)) as knocking:
        found = knocking.map(lambda address: is_reachable(*address), addresses.values())
        return sorted(node_id for node_id, there in zip(addresses, found, strict=True) if not there)


def _first_reply(bootstrap: str, frame: bytes, within_s: float, while_waiting: Callable[[], None] | None) -> memoryview:
    failures: list[NoAnswer] = []
    for address in parse_addresses(bootstrap):
        try:
            with connected(address) as connection:
                connection.settimeout(within_s)
                return exchange(connection, address, frame, while_waiting, PATIENCE_S)
        except NoAnswer as failure:
            failures.append(failure)
    # An error after connecting says more than a refused connection.
    raise min(failures, key=lambda failure: isinstance(failure, Unreachable))
