"""One transactional id: what its transaction holds back, who waits for it, and aborting it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.base.ids import TopicPartition
from odradek.client.transaction_requests import Open, TransactionRefused, Transactions, nothing_to_abort
from odradek.client.wire import NoAnswer
from odradek.console.collecting import figures
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.collecting.transactions import (
    PATIENCE_S,
    Held,
    KnownTransactions,
    Transaction,
    described,
    read_held,
    waiting,
    with_open,
)
from odradek.console.frame import Console, Refused, not_found
from odradek.console.listing import Listing
from odradek.console.rendering import count
from odradek.watch.watched_cluster import now_ms

PART = "transactions"
PATH = "/transactions/id/{name:path}"
# Of more partitions, the page names only these.
PLACES_MAX = 1_000
NOT_ABORTED = "Nothing was aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    place: TopicPartition
    own: Open | None  # None before its first record
    held: Held | None  # None if nothing is held back
    owner: str  # the transactional id that holds the partition back
    groups: tuple[str, ...]

    @property
    def is_held_by_it(self) -> bool:
        return self.own is not None and self.held is not None and self.held.first == self.own


def known_transactions(snapshot: Snapshot) -> KnownTransactions:
    found = snapshot.parts.get(PART)
    return found if isinstance(found, KnownTransactions) else KnownTransactions(at_ms=snapshot.at_ms)


def tone(found: Transaction) -> str:
    if not found.is_open:
        return ""
    return "warn" if found.is_ending else "info"


def routes(console: Console) -> Sequence[BaseRoute]:
    def shown(request: Request) -> Response:
        return _shown(console, request)

    async def aborted(request: Request) -> Response:
        form = await console.form(request)
        return await run_in_threadpool(_abort, console, request.path_params["name"], form)

    return [Route(PATH, shown), Route(PATH, aborted, methods=["POST"])]


def _shown(console: Console, request: Request) -> Response:
    name: str = request.path_params["name"]
    known = known_transactions(console.snapshot)
    found, problem = known.by_name.get(name), ""
    try:
        found = _read(console, name)
    except (NoAnswer, TransactionRefused) as failed:
        problem = str(failed)
    if found is None:
        raise not_found("transactional id", name, problem or "the list of transactions shows those there are")
    rows = _rows(console, found)
    return console.page(
        request,
        "transaction.html",
        title=name,
        transaction=found,
        tone=tone(found),
        problem=problem,
        rule=found.rule(now_ms()),
        open_ms=found.open_ms(now_ms()),
        list=_listing(request, rows),
        left_out=max(len(found.places) - PLACES_MAX, 0),
        groups=sorted({group for row in rows for group in row.groups}),
        own_groups=sorted({group for row in rows if row.is_held_by_it for group in row.groups}),
        held_rows=[row for row in rows if row.is_held_by_it],
        refusal=nothing_to_abort(found.state),
        asked="abort" in request.query_params,
        identity=identity(found),
    )


def _read(console: Console, name: str) -> Transaction | None:
    """Raises NoAnswer and TransactionRefused."""
    answer = Transactions(console.cluster, within_s=PATIENCE_S).described(name)
    if answer is None:
        return None
    coordinator, state = answer
    seen = known_transactions(console.snapshot).by_name.get(name)
    is_same = seen is not None and (seen.state, seen.producer_id) == (state.transaction_state, state.producer_id)
    known = Transaction(
        name=name,
        state=state.transaction_state,
        producer_id=state.producer_id,
        coordinator=coordinator,
        since_ms=seen.since_ms if seen is not None and is_same else now_ms(),
    )
    return described(known, state)


def held_in(console: Console, topics: set[str], places: set[TopicPartition]) -> dict[TopicPartition, Held]:
    """What is held back in these partitions of these topics now."""
    snapshot, cluster = console.snapshot, console.cluster
    wanted = {name: snapshot.topics[name] for name in topics if name in snapshot.topics}
    alive = [each.broker_id for each in snapshot.brokers if each.is_alive]
    ends = figures.read_offsets(cluster, wanted, alive, figures.LATEST)
    found = read_held(cluster, wanted, alive, ends)
    requests = Transactions(cluster, within_s=PATIENCE_S)
    return with_open(cluster, requests, snapshot, [each for place, each in found.items() if place in places])[0]


def _rows(console: Console, found: Transaction) -> list[Row]:
    places = found.places[:PLACES_MAX]
    held = held_in(console, {place.topic for place in places}, set(places))
    known = known_transactions(console.snapshot)
    waits = waiting(console.snapshot, held, console.watched.evaluate)
    rows = []
    for place in places:
        here = held.get(place)
        own = next((each for each in here.open if each.producer_id == found.producer_id), None) if here else None
        first = here.first if here is not None else None
        owner = known.of_producer(first.producer_id) if first is not None else None
        rows.append(
            Row(
                place=place,
                own=own,
                held=here,
                owner=owner.name if owner is not None else "",
                groups=tuple(each.group for each in waits if place in each.places),
            )
        )
    return rows


def _listing(request: Request, rows: list[Row]) -> Listing[Row]:
    return Listing(
        request,
        rows,
        columns={
            "partition": lambda row: row.place,
            "first": lambda row: row.own.start_offset if row.own is not None else None,
            "stable": lambda row: row.held.stable if row.held is not None else None,
            "records": lambda row: row.held.records if row.held is not None else 0,
            "groups": lambda row: len(row.groups),
        },
        down=("records", "groups"),
        found_in=lambda row: f"{row.place} {' '.join(row.groups)}",
    )


def _abort(console: Console, name: str, form: dict[str, str]) -> Response:
    here = console.to("/transactions/id", name)
    try:
        found = _checked(_read(console, name), name, form)
        Transactions(console.cluster, within_s=PATIENCE_S).replace_producer(name, found.timeout_ms or 0)
    except (Refused, NoAnswer, TransactionRefused) as refused:
        return console.not_done(refused, here)
    partitions = "1 partition" if len(found.places) == 1 else f"{count(len(found.places))} partitions"
    return console.done(f"The transaction of {name} was aborted in {partitions}. Its producer is fenced", here)


def _checked(found: Transaction | None, name: str, form: dict[str, str]) -> Transaction:
    """The transaction that the user saw. Raises Refused if it has ended."""
    if found is None:
        raise Refused(NOT_ABORTED, f"transactional id {name} does not exist")
    if why := nothing_to_abort(found.state):
        raise Refused(NOT_ABORTED, f"{name} {why}")
    if form.get("transaction") != identity(found):
        raise Refused(NOT_ABORTED, "the transaction that you saw has ended, and another one is open. Look again")
    return found


def identity(found: Transaction) -> str:
    """Tells apart the transactions of one transactional id."""
    return f"{found.producer_id}/{found.epoch}/{found.started_ms}"
