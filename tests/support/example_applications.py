"""Streams applications in different states, as the console sees them: what they announce, without Spark."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace

from odradek.client.admin import Admin
from odradek.client.producer import Producer
from odradek.pipeline.announcement import STATUS, TOPIC, TOPIC_CONFIG, TOPOLOGY, About, Announced, encoded, key_of
from odradek.pipeline.query_record import QueryRecord
from odradek.streams import App, F, tumbling
from odradek.streams.run.drawing import pictured

LETTERS = "fleet-dead-letters"
EXACTLY_ONCE = "exactly once for readers with read_committed"
SLOW = "its micro-batches take longer than their interval: 14 s on average of the last 10"
TRACE = """total() raised InvalidOperation for the record at offset 2871 of orders-2
  File "/srv/orders/totals.py", line 41, in total
    return price * Decimal(order["quantity"])
decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]"""
# Longer than a test or a session of screenshots: an application whose status is old is shown as silent.
VALID_S = 3600.0
FLEET = (
    QueryRecord(
        name="",  # that of the topic
        state="working",
        batch=418,
        input_rows_per_s=120.0,
        processed_rows_per_s=640.0,
        batch_ms=910,
        planning_ms=120,
        execution_ms=700,
        late_rows=3,
        event_time="2026-11-19 21:40:00",
        state_rows=1_204,
        state_bytes=482_000,
    ),
    QueryRecord(name="alarms", state="waiting", batch=52, input_rows_per_s=0.4, processed_rows_per_s=9.0, batch_ms=240),
)


def announce_examples(bootstrap: str, *, reads: str = "positions", group: str = "fleet.positions") -> None:
    """Four applications. `fleet` reads the topic `reads` with this group, and has dead letters."""
    admin = Admin(bootstrap)
    topics = admin.topics(include_internal=True)
    for topic, config in ((TOPIC, TOPIC_CONFIG), (LETTERS, {}), ("speeding", {})):
        if topic not in topics:
            admin.create_topic(topic, 1, config)
    about = {
        reads: About(
            group=group,
            reads=(reads,),
            writes=("speeding", LETTERS, "fleet-drivers-changelog"),
            guarantees={
                "speeding": EXACTLY_ONCE,
                LETTERS: EXACTLY_ONCE,
                "fleet-drivers-changelog": EXACTLY_ONCE,
                "to_warehouse": "at least once: a Python function may see rows again after a failure",
            },
        ),
        "alarms": About(group="fleet.alarms", reads=("speeding",), writes=(), guarantees={}),
    }
    totals = About(
        group="order-totals.totals", reads=("orders",), writes=("totals",), guarantees={"totals": EXACTLY_ONCE}
    )
    failed = QueryRecord(name="totals", state="failed", batch=7, error=TRACE)
    slow = QueryRecord(
        name="sessions", state="working", batch=90, input_rows_per_s=900.0, processed_rows_per_s=610.0, batch_ms=14_000,
        planning_ms=400, execution_ms=13_100, state_rows=2_400_000, state_bytes=1 << 30, warning=SLOW,
    )  # fmt: skip
    applications = (
        _announced(
            "fleet",
            replace(FLEET[0], name=reads),
            *FLEET[1:],
            about=about,
            views={"drivers": "fleet-drivers-changelog"},
            dead_letters=(LETTERS,),
        ),
        _announced("order-totals", failed, is_over=True, starts=3, about={"totals": totals}),
        _announced("web-sessions", slow),
        _announced("nightly-warehouse-export", QueryRecord(name="export", state="stopped", batch=12), is_over=True),
    )
    with Producer(bootstrap=bootstrap) as producer:
        for each in applications:
            producer.send(TOPIC, encoded(each), key_of(STATUS, each.application)).result()
        with tempfile.TemporaryDirectory() as folder:
            picture = pictured(_fleet(reads, folder).application)
            producer.send(TOPIC, encoded(picture), key_of(TOPOLOGY, "fleet")).result()
        for number in range(3):
            reason = f"speed: 'fast' is no double, in the record at offset {number + 17}"
            headers = {
                "__streams.errors.exception": b"ParseError",
                "__streams.errors.message": reason.encode(),
                "__streams.errors.topic": reads.encode(),
            }
            producer.send(LETTERS, b'{"driver": "anna", "speed": "fast"}', b"anna", headers=headers).result()


def _announced(application: str, *queries: QueryRecord, is_over: bool = False, starts: int = 1, **told) -> Announced:
    now = time.time()
    return Announced(
        application=application,
        host="worker-1",
        pid=4711,
        started_s=now - 7200,
        at_s=now + VALID_S,
        is_over=is_over,
        starts=starts,
        state_dir="/var/lib/odradek",
        queries=queries,
        **told,
    )


def _fleet(reads: str, folder: str) -> App:
    fleet = App("fleet", bootstrap="127.0.0.1:1", state_dir=folder)
    positions = fleet.stream(reads, schema="driver string, speed double", dlq=LETTERS)
    fast = positions[positions.speed > 80]
    fast.to("speeding", key="driver")
    fast.group_by("driver").window(tumbling("1 minute")).agg(n=F.count("*")).materialize("drivers")
    return fleet
