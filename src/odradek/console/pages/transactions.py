"""The list of transactions: their state, how long they are open, and which of them need a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.console import transaction_findings
from odradek.console.collecting.parts import Part
from odradek.console.collecting.snapshot import Snapshot
from odradek.console.collecting.transactions import (
    EVERY_S,
    Hanging,
    KnownTransactions,
    Rule,
    Transaction,
    TransactionReader,
)
from odradek.console.frame import Console, Page
from odradek.console.listing import Listing
from odradek.console.pages import hanging_transaction, transaction
from odradek.console.pages.transaction import PART, known_transactions, tone

# What the filter offers: its name in the address, and its title.
FILTERS = (
    ("all", "All"),
    ("open", "Open"),
    ("ending", "Ending"),
    ("problems", "Hanging or late"),
    ("idle", "Nothing open"),
)
LONGER = {"": 0, "1m": 60, "5m": 300, "15m": 900, "1h": 3600, "1d": 86_400}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str
    owner: str  # of a hanging one, whose transactional id is known
    path: str
    state: str
    tone: str
    rule: Rule | None
    producer_id: int
    epoch: int | None
    coordinator: int | None
    seconds: float | None
    partitions: int | None

    def is_kept(self, wanted: str) -> bool:
        return {
            "open": self.state == "Ongoing",
            "ending": self.state.startswith("Prepare"),
            "problems": self.rule is not None,
            "idle": self.tone == "",
        }.get(wanted, True)


def rows(console: Console, known: KnownTransactions, at_ms: int) -> Iterator[Row]:
    for hanging in known.hanging:
        yield _hanging(console, hanging, at_ms)
    for each in known.by_name.values():
        yield _known(console, each, at_ms)


def _hanging(console: Console, found: Hanging, at_ms: int) -> Row:
    return Row(
        name=f"{found.open.partition} from offset {found.open.start_offset}",
        owner=found.owner,
        path=console.to(found.path),
        state="Hanging",
        tone="bad",
        rule=Rule.HANGING,
        producer_id=found.open.producer_id,
        epoch=found.open.producer_epoch,
        coordinator=None,
        seconds=(at_ms - found.open.last_ms) / 1000,
        partitions=1,
    )


def _known(console: Console, each: Transaction, at_ms: int) -> Row:
    open_ms = each.open_ms(at_ms)
    return Row(
        name=each.name,
        owner="",
        path=console.to("/transactions/id", each.name),
        state=each.state,
        tone=tone(each),
        rule=each.rule(at_ms),
        producer_id=each.producer_id,
        epoch=each.epoch,
        coordinator=each.coordinator,
        seconds=None if open_ms is None else open_ms / 1000,
        partitions=None if each.epoch is None else len(each.places),
    )


def _routes(console: Console) -> Sequence[BaseRoute]:
    def transactions(request: Request) -> Response:
        known = known_transactions(console.snapshot)
        wanted = request.query_params.get("show", "all")
        longer = request.query_params.get("longer", "")
        seconds = LONGER.get(longer, 0)
        every = [each for each in rows(console, known, console.snapshot.at_ms) if (each.seconds or 0) >= seconds]
        found = Listing(
            request,
            [each for each in every if each.is_kept(wanted)],
            columns={
                "open": lambda row: (row.rule is not None, row.seconds or -1),
                "name": lambda row: row.name,
                "state": lambda row: row.state,
                "producer": lambda row: row.producer_id,
                "coordinator": lambda row: row.coordinator,
                "partitions": lambda row: row.partitions,
            },
            down=("open", "partitions"),
            found_in=lambda row: f"{row.name} {row.owner} {row.producer_id} {row.state}",
        )
        return console.page(
            request,
            "transactions.html",
            title="Transactions",
            known=known,
            list=found,
            show=wanted,
            filters=FILTERS,
            counts={name: sum(each.is_kept(name) for each in every) for name, _ in FILTERS},
            longer=longer,
            longer_choices=LONGER,
        )

    return [Route("/transactions", transactions), *transaction.routes(console), *hanging_transaction.routes(console)]


def _parts(console: Console) -> Sequence[Part]:
    reader = TransactionReader(console.cluster, console.watched.evaluate)
    return [
        Part(
            name=PART,
            every_s=EVERY_S,
            read=reader.read,
            findings=transaction_findings.findings,
            events=transaction_findings.events,
        )
    ]


def _is_there(snapshot: Snapshot) -> bool:
    return PART in snapshot.parts


def _count(snapshot: Snapshot) -> int | None:
    return known_transactions(snapshot).total


PAGE = Page(
    name="transactions",
    title="Transactions",
    path="/transactions",
    icon="transactions",
    key="x",
    section="Data",
    routes=_routes,
    is_there=_is_there,
    parts=_parts,
    count=_count,
)
