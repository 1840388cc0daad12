"""The list of topics, and creating and deleting several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from odradek.client.records import ClientError
from odradek.console.collecting.snapshot import Snapshot, Topic
from odradek.console.frame import Console, Page, Refused
from odradek.console.listing import Listing
from odradek.console.pages.topic import topic_routes
from odradek.console.pages.topic.layout import TopicPages
from odradek.console.topic_configs import readable
from odradek.console.topic_creation import PRESETS, TopicForm, created
from odradek.web.errors import HttpError

SHOWN = ("topics", "problems", "internal", "all")
DELETED_AT_ONCE_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    topic: Topic
    records: int | None
    size: int | None
    rate: float | None
    configs: Mapping[str, str] | None = None
    trend: Sequence[float] = ()
    refusing: int = 0  # partitions that refuse acks=all

    @property
    def severity(self) -> int:
        if self.topic.offline:
            return 3
        return 2 if self.refusing else 1 if self.topic.under_replicated else 0

    @property
    def retention(self) -> str:
        """Such as "7 d" or "7 d or 1 GiB"; empty if it is unknown."""
        if self.configs is None:
            return ""
        if self.cleanup == "compact":
            return "keeps the last of each key"
        limits = [
            readable(name, self.configs[name])
            for name in ("retention.ms", "retention.bytes")
            if not self.configs.get(name, "-1").startswith("-1")
        ]
        return " or ".join(limits) or "unlimited"

    @property
    def cleanup(self) -> str:
        return "" if self.configs is None else self.configs.get("cleanup.policy", "")


def row_of(snapshot: Snapshot, topic: Topic) -> Row:
    return Row(
        topic=topic,
        records=records_of(snapshot, topic.name),
        size=snapshot.sizes.get(topic.name),
        rate=snapshot.rates.get(topic.name),
        refusing=len(snapshot.refusing(topic)),
    )


def records_of(snapshot: Snapshot, name: str) -> int | None:
    """End minus start of all partitions: what compaction and transactions leave out is counted, too."""
    ends, starts = snapshot.ends.get(name), snapshot.starts.get(name)
    if ends is None or starts is None:
        return None
    return sum(end - start for end, start in zip(ends, starts, strict=False) if end >= 0 and start >= 0)


def is_internal(topic: Topic) -> bool:
    return topic.is_internal or topic.name.startswith("__")


def is_kept(topic: Topic, wanted: str) -> bool:
    if wanted == "problems":
        return bool(topic.offline or topic.under_replicated)
    if wanted == "all":
        return True
    return is_internal(topic) == (wanted == "internal")


class Topics:
    def __init__(self, pages: TopicPages) -> None:
        self._pages = pages
        self._console = pages.console

    def listed(self, request: Request) -> Response:
        console, snapshot = self._console, self._console.snapshot
        wanted = request.query_params.get("show", SHOWN[0])
        topics = list(snapshot.topics.values())
        found = Listing(
            request,
            [row_of(snapshot, topic) for topic in topics if is_kept(topic, wanted)],
            columns={
                "topic": lambda row: row.topic.name,
                "state": lambda row: row.severity,
                "partitions": lambda row: len(row.topic.partitions),
                "replicas": lambda row: row.topic.replication,
                "records": lambda row: row.records,
                "size": lambda row: row.size,
                "rate": lambda row: row.rate,
            },
            down=("state", "partitions", "replicas", "records", "size", "rate"),
            found_in=lambda row: row.topic.name,
        )
        configs = self._pages.configs.of([row.topic.name for row in found.rows])
        rows = [
            replace(row, configs=configs.get(row.topic.name), trend=console.trend("topic/" + row.topic.name))
            for row in found.rows
        ]
        return console.page(
            request,
            "topics.html",
            title="Topics",
            list=found,
            rows=rows,
            show=wanted,
            counts={name: sum(is_kept(topic, name) for topic in topics) for name in SHOWN},
        )

    # Creating

    def creating(self, request: Request) -> Response:
        return self._form(request, TopicForm.preset(request.query_params.get("preset", "")), "")

    async def create(self, request: Request) -> Response:
        fields = await self._console.form(request)
        return await run_in_threadpool(self._create, request, fields)

    def _create(self, request: Request, fields: Mapping[str, str]) -> Response:
        form = TopicForm.of(fields)
        try:
            created(self._console.admin, form)
        except (Refused, ClientError) as refused:
            return self._form(request, form, str(refused), status=400)
        return self._console.done(f"Created the topic {form.name}.", self._console.to("/topics", form.name))

    def _form(self, request: Request, form: TopicForm, problem: str, status: int = 200) -> Response:
        return self._console.page(
            request,
            "topic_create.html",
            title="Create a topic",
            status=status,
            form=form,
            presets=PRESETS,
            problem=problem,
            brokers=sum(broker.is_alive for broker in self._console.snapshot.brokers),
        )

    # Deleting several

    def deleting(self, request: Request) -> Response:
        names = self._chosen(request.query_params.getlist("topic"))
        snapshot = self._console.snapshot
        rows = [row_of(snapshot, snapshot.topics[name]) for name in names]
        return self._console.page(
            request, "topics_delete.html", title="Delete topics", rows=rows, phrase=phrase(names), problem=""
        )

    async def delete(self, request: Request) -> Response:
        fields = await self._console.form(request)
        return await run_in_threadpool(self._delete, request, fields)

    def _delete(self, request: Request, fields: Mapping[str, str]) -> Response:
        names = self._chosen(fields.get("topics", "").split())
        console, snapshot = self._console, self._console.snapshot
        if fields.get("confirm", "").strip() != phrase(names):
            rows = [row_of(snapshot, snapshot.topics[name]) for name in names]
            problem = f'Nothing is deleted: the confirmation is not "{phrase(names)}".'
            return console.page(
                request,
                "topics_delete.html",
                title="Delete topics",
                rows=rows,
                phrase=phrase(names),
                problem=problem,
                status=400,
            )
        try:
            console.admin.delete_topics(names)
        except ClientError as refused:
            return console.not_done(refused, console.to("/topics"))
        return console.done(f"Deleted {', '.join(names)}.", console.to("/topics"))

    def _chosen(self, names: Sequence[str]) -> list[str]:
        known = self._console.snapshot.topics
        found = [name for name in dict.fromkeys(names) if name in known]
        if not found:
            raise HttpError(400, "no topic is chosen", "go back, and mark the topics in the list")
        if len(found) > DELETED_AT_ONCE_MAX:
            raise HttpError(
                400, f"{len(found)} topics are chosen", f"at most {DELETED_AT_ONCE_MAX} are deleted at once"
            )
        return found


def phrase(names: Sequence[str]) -> str:
    """What a user types to delete these topics."""
    return names[0] if len(names) == 1 else f"delete {len(names)} topics"


def _routes(console: Console) -> Sequence[BaseRoute]:
    pages = TopicPages(console)
    topics = Topics(pages)
    return [
        Route("/topics", topics.listed),
        Route("/create-topic", topics.creating),
        Route("/create-topic", topics.create, methods=["POST"]),
        Route("/delete-topics", topics.deleting),
        Route("/delete-topics", topics.delete, methods=["POST"]),
        *topic_routes(pages),
    ]


def _count(snapshot: Snapshot) -> int:
    return sum(not is_internal(topic) for topic in snapshot.topics.values())


PAGE = Page(
    name="topics", title="Topics", path="/topics", icon="topics", key="t", section="Data", routes=_routes, count=_count
)
