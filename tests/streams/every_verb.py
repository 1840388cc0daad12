"""One application with every verb that the engine runs, input for it with a seed, and how to compare what it wrote."""

from __future__ import annotations

import json
import random
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from odradek.streams import App, F, State, Stream, Table, Timers, hopping, session, sliding, tumbling

LATE_MS = 3000
START_MS = 1_767_268_800_000  # noon on the first of January 2026
PARTITIONS = {"views": 3, "buys": 2, "users": 2, "scores": 1}
USERS = ("ann", "bob", "cem")

FINAL = (
    *("plain", "mapped", "words", "once", "counted", "expired", "between"),
    *("tumbling", "hopping", "sessions", "sliding", "hourly"),
    *("joined", "left", "outer", "named", "newest", "leaders", "named_windows", "changes"),
)
UPDATING = ("tumbling_updates", "totals", "longest", "last", "profiles")
"""Not here: what follows `through`, which depends on the order in which tasks wrote."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record of the input. Its timestamp is when it arrived, its event time up to LATE_MS before."""

    topic: str
    key: str
    value: dict[str, Any] | None
    timestamp_ms: int

    @property
    def arrived(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def partition(self) -> int:
        return zlib.crc32(self.key.encode()) % PARTITIONS[self.topic]


def arrivals(seed: int, count: int) -> list[Sent]:
    chosen = random.Random(seed)
    now, found = START_MS, []
    for n in range(count):
        now += chosen.randint(1, 1500)
        user, topic = chosen.choice(USERS), chosen.choices((*PARTITIONS,), (6, 3, 1, 1))[0]
        at = datetime.fromtimestamp((now - chosen.randint(0, LATE_MS)) / 1000, UTC).isoformat()
        value: dict[str, Any] | None
        if topic == "views":
            value = {"user": user, "page": chosen.choice(("home", "tea", "cup")), "n": n, "at": at}
        elif topic == "buys":
            value = {"user": user, "item": f"item {n}", "at": at}
        elif chosen.random() < 0.2:
            value = None
        else:
            value = {"id": user} | ({"name": f"{user} {n}"} if topic == "users" else {"score": n})
        found.append(Sent(topic, user, value, now))
    return found


def closing(rows: Sequence[Sent]) -> list[Sent]:
    """Rows far in the future, one for each stream: everything before them is over then."""
    far = rows[-1].timestamp_ms + 3_600_000
    at = datetime.fromtimestamp(far / 1000, UTC).isoformat()
    return [
        Sent("views", "end", {"user": "end", "page": "end", "n": -1, "at": at}, far),
        Sent("buys", "end", {"user": "end", "item": "end", "at": at}, far + 1),
    ]


@dataclass
class Longest:
    pages: int = 0
    longest: str = ""


def longer(found: Longest, row: Any) -> Longest:
    return Longest(found.pages + 1, max(found.longest, f"{row.page}-{row.n}", key=len))


def later_of(one: Any, other: Any) -> Any:
    return one if one.at > other.at else other


def shout(row: Any) -> dict[str, Any]:
    return {"user": row.user.upper(), "n": row.n}


def words(row: Any) -> list[dict[str, Any]]:
    return [{"user": row.user, "word": word} for word in row.item.split()]


class Quiet:
    """Says how many views a user had before each pause."""

    def on_rows(self, user: str, rows: Any, seen: State[int], timers: Timers) -> Any:
        for row in rows:
            seen.value = (seen.value or 0) + 1
            timers.clear()
            timers.after("4 seconds")
            yield user, row.n, seen.value

    def on_timer(self, user: str, at: datetime, seen: State[int]) -> Any:
        yield user, -1, seen.value
        seen.clear()


def remembered(user: str, rows: Any, last: State[int]) -> Any:
    for row in rows:
        yield user, row.n, last.value
        last.value = row.n


@dataclass(frozen=True, slots=True)
class Hold:
    """A sink that stops in the middle of a micro-batch while the file `hold` is there."""

    folder: str
    part: str

    def __call__(self, row: Any) -> None:
        hold = Path(self.folder) / "hold"
        if hold.exists():
            (Path(self.folder) / f"held-{self.part}").touch()
            deadline = time.monotonic() + 240
            while hold.exists() and time.monotonic() < deadline:
                time.sleep(0.02)


PARTS = ("functions", "windows", "joins")


@dataclass(frozen=True, slots=True)
class Part:
    """A query of the application: it reads all topics by itself."""

    app: App
    name: str
    folder: Path

    def topic(self, of: str) -> str:
        return f"{self.app.name}-{of}"

    @property
    def hold(self) -> Hold:
        return Hold(str(self.folder), self.name)

    def views(self) -> Stream:
        return self._stream("views", "user string, page string, n int, at timestamp")

    def buys(self) -> Stream:
        return self._stream("buys", "user string, item string, at timestamp")

    def table(self, of: str, column: str) -> Table:
        return self.app.table(self.topic(of), key="id", schema=f"id string, {column}", name=f"{self.name}-{of}")

    def _stream(self, of: str, schema: str) -> Stream:
        late = f"{LATE_MS} milliseconds"
        return self.app.stream(self.topic(of), schema=schema, time="at", late=late, name=f"{self.name}-{of}")


def every_verb(name: str, folder: Path) -> App:
    """Three queries, as one with all of it takes Spark long to plan; and one more behind a topic."""
    app = App(name)
    functions, windows, joins = (Part(app, part, folder) for part in PARTS)
    add_functions(functions)
    add_windows(windows)
    add_joins(joins)
    return app


def add_functions(part: Part) -> None:
    views, buys, topic = part.views(), part.buys(), part.topic
    odd = views[views.n % 2 == 1].with_columns(twice=views.n * 2).drop("page").rekey("user")
    odd.select("user", "n", "twice").to(topic("plain"))
    views.map(shout, "user string, n int").to(topic("mapped"), key="user")
    buys.flat_map(words, "user string, word string").to(topic("words"), key="user")
    home, others = views.branch(views.page == "home")
    merged = home.select("user", what="page").merge(
        buys.select("user", what="item"), others.select("user", what="page")
    )
    merged.deduplicate("user", within="2 seconds").to(topic("once"), key="user")
    counted = views.process(key="user", out="user string, n int, seen bigint")(Quiet)
    counted.to(topic("counted"), key="user")
    counted.foreach(part.hold)
    views.process(key="user", out="user string, n int, before int", ttl="2 seconds")(remembered).to(topic("expired"))


def add_windows(part: Part) -> None:
    views, topic = part.views(), part.topic
    by_user = views.group_by("user")
    in_order = F.collect_list("n")
    tens = by_user.window(tumbling("10 seconds")).agg(n=F.count("*"), all=in_order, last=F.last("page"))
    tens.to(topic("tumbling"))
    tens.to(topic("tumbling_updates"), emit="updates")
    tens.window(tumbling("1 minute")).agg(most=F.max("n"), users=F.count("*")).to(topic("hourly"))
    by_user.window(hopping("10 seconds", every="4 seconds")).agg(n=F.sum("n")).to(topic("hopping"))
    by_user.window(session("3 seconds")).agg(first=F.min_by("n", "at"), all=in_order).to(topic("sessions"))
    by_user.window(sliding("3 seconds")).agg(all=in_order).to(topic("sliding"))
    totals = by_user.agg(n=F.count("*"), pages=F.collect_list("page"))
    totals.materialize("totals")
    totals.to(topic("totals"))
    totals.to_stream().foreach(part.hold)
    by_user.reduce(later_of, "user string, page string, n int, at timestamp").to(topic("last"))
    through = views.select("user", "n").through(topic("between"), key="user", partitions=2)
    through.group_by("user").window(tumbling("10 seconds")).agg(n=F.sum("n"), rows=F.count("*")).to(topic("later"))


def add_joins(part: Part) -> None:
    views, buys, topic = part.views(), part.buys(), part.topic
    users, scores = part.table("users", "name string"), part.table("scores", "score int")
    bound = ("1 second", "2 seconds")
    for how, to in (("inner", "joined"), ("left", "left"), ("outer", "outer")):
        views.join(buys, on="user", within=bound, how=how).select("user", "n", "item").to(topic(to))
    named = views.join(users, on={"user": "id"}, how="left").select("user", "n", "name")
    named.to(topic("named"), key="user")
    named.foreach(part.hold)
    named.group_by("user").window(tumbling("5 seconds")).agg(names=F.collect_list("name")).to(topic("named_windows"))
    views.join(users, on={"user": "id"}, how="left", as_of=False).select("user", "n", "name").to(topic("newest"))
    longest = views.group_by("user").aggregate(Longest(), longer, Longest)
    longest.to(topic("longest"))
    buys.join(longest, on="user", how="left").select("user", "item", "pages").to(topic("leaders"))
    users.join(scores, on="id", how="outer").to(topic("profiles"))
    users.filter("name is not null").to_stream().to(topic("changes"))


Record = tuple[str | None, Any]


def key_text(key: Any) -> str | None:
    """Several columns as text, however the reader gave them."""
    if isinstance(key, str) and key.startswith("{"):
        key = json.loads(key)
    return key if key is None or isinstance(key, str) else json.dumps(key, sort_keys=True)


def text(record: Record) -> str:
    return repr(record)


def differences(expected: Sequence[Record], found: Sequence[Record], *, repeated: bool) -> list[str]:
    """Of final results: each is there once, or where a micro-batch was interrupted at least once."""
    wanted, got = Counter(map(text, expected)), Counter(map(text, found))
    missing, more = wanted - got, got - wanted
    if repeated:
        more = Counter({one: count for one, count in more.items() if one not in wanted})
    return [f"missing {one}" for one in missing] + [f"not expected {one}" for one in more]


def last_by_key(records: Iterable[Record]) -> dict[str | None, Any]:
    return {key: value for key, value in dict(records).items() if value is not None}


def changes_by_key(records: Iterable[Record]) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = defaultdict(list)
    for key, value in records:
        found[key].append(repr(value))
    return found


def is_part_of(few: Sequence[str], many: Sequence[str]) -> bool:
    """Whether the few come among the many, in the same order."""
    left = iter(many)
    return all(one in left for one in few)
