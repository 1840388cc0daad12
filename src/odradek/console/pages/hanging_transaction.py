"""One transaction that is open in a partition, by its first offset: whether it hangs, and aborting it there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.base.ids import TopicPartition
from odradek.client.transaction_requests import OLD_MS, Open, TransactionRefused, Transactions, named
from odradek.client.wire import NoAnswer
from odradek.console.collecting.transactions import PATIENCE_S, Held, coordinators_answer, waiting
from odradek.console.frame import Console, Refused, not_found
from odradek.console.pages.transaction import NOT_ABORTED, held_in
from odradek.console.rendering import duration
from odradek.watch.watched_cluster import now_ms

PATH = "/transactions/at/{topic}/{partition:int}/{offset:int}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    open: Open
    held: Held
    owner: str  # the transactional id of its producer, where a coordinator knows it
    refusal: str  # why it is not aborted here; empty if it may be

    @property
    def is_first(self) -> bool:
        return self.held.first == self.open


def routes(console: Console) -> Sequence[BaseRoute]:
    def shown(request: Request) -> Response:
        return _shown(console, request)

    async def aborted(request: Request) -> Response:
        form = await console.form(request)
        return await run_in_threadpool(_abort, console, request, form)

    return [Route(PATH, shown), Route(PATH, aborted, methods=["POST"])]


def _place(request: Request) -> tuple[TopicPartition, int]:
    said = request.path_params
    return TopicPartition(said["topic"], said["partition"]), said["offset"]


def _shown(console: Console, request: Request) -> Response:
    place, offset = _place(request)
    topic = console.snapshot.topics.get(place.topic)
    if topic is None or place.partition >= len(topic.partitions):
        raise not_found("partition", str(place), "the list of topics shows those there are")
    try:
        found, problem = _read(console, place, offset), ""
    except (NoAnswer, TransactionRefused) as failed:
        found, problem = None, str(failed)
    held = {place: found.held} if found is not None else {}
    groups = [each.group for each in waiting(console.snapshot, held, console.watched.evaluate)]
    return console.page(
        request,
        "hanging_transaction.html",
        title=f"{place} from offset {offset}",
        place=place,
        offset=offset,
        found=found,
        problem=problem,
        groups=groups,
        command=f"odradek txn abort --at {named(place)}:{offset}",
        asked="abort" in request.query_params,
    )


def _read(console: Console, place: TopicPartition, offset: int) -> _Found | None:
    """None if no open transaction begins there. Raises NoAnswer and TransactionRefused."""
    held = held_in(console, {place.topic}, {place}).get(place)
    wrong = next((each for each in held.open if each.start_offset == offset), None) if held is not None else None
    if held is None or wrong is None:
        return None
    requests = Transactions(console.cluster, within_s=PATIENCE_S)
    alive = [each.broker_id for each in console.snapshot.brokers if each.is_alive]
    owner = requests.owners(alive, [wrong]).get(wrong.producer_id)
    age_ms = now_ms() - wrong.last_ms
    if not requests.hanging(alive, [wrong]):
        refusal = "its coordinator still knows it, and would not notice"
    elif not coordinators_answer(console.snapshot):
        refusal = "not all coordinators answer, and one of them may know it"
    elif age_ms < OLD_MS:
        refusal = f"its last record is only {duration(age_ms / 1000)} old, so its producer may still be at work"
    else:
        refusal = ""
    return _Found(open=wrong, held=held, owner=owner.transactional_id if owner is not None else "", refusal=refusal)


def _abort(console: Console, request: Request, form: dict[str, str]) -> Response:
    place, offset = _place(request)
    here = console.to("/transactions/at", place.topic, place.partition, offset)
    try:
        found = _checked(_read(console, place, offset), form)
        leader = console.snapshot.topics[place.topic].partitions[place.partition].leader
        Transactions(console.cluster, within_s=PATIENCE_S).abort_in_partition(leader, found.open)
    except (Refused, NoAnswer, TransactionRefused) as refused:
        return console.not_done(refused, here)
    return console.done(
        f"The transaction at offset {offset} of {place} was aborted. Its readers go on",
        console.to("/topics", place.topic, "partitions"),
    )


def _checked(found: _Found | None, form: dict[str, str]) -> _Found:
    """The transaction that the user saw. Raises Refused if it must not be aborted here."""
    if found is None:
        raise Refused(NOT_ABORTED, "no open transaction begins at this offset")
    if found.refusal:
        raise Refused(NOT_ABORTED, found.refusal)
    if form.get("producer") != f"{found.open.producer_id}/{found.open.producer_epoch}":
        raise Refused(NOT_ABORTED, "another producer has a transaction there now. Look again")
    return found
