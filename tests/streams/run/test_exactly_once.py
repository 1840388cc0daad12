"""Topics written in transactions: a micro-batch that is repeated after a crash is not written again."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from odradek.client.admin import Admin
from odradek.pipeline.layout import Layout
from odradek.streams import App, F, PipelineError
from odradek.streams.run.reset import carry_out, plan_reset
from streams.broker import Topics


def committed(bootstrap: str, topic: str) -> list[dict]:
    """What a reader with read_committed sees."""
    config = {"isolation.level": "read_committed", "enable.partition.eof": True, "group.id": "committed"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **config})
    end = Admin(bootstrap).end_offsets(topic)[0]
    consumer.assign([TopicPartition(topic, 0, 0)])
    found, position = [], 0
    while position < end:
        message = consumer.poll(30)
        assert message is not None
        position = message.offset()  # of the end, too: what is committed so far may end earlier
        if message.error() is None:
            found.append(json.loads(message.value()))
            position += 1
    consumer.close()
    return found


def application(bootstrap: str, state: Path) -> App:
    app = App("shop", bootstrap, state_dir=str(state))
    orders = app.stream("orders", schema="item string, price double")
    orders[orders.price > 10].to("dear")
    counts = orders.group_by("item").agg(n=F.count("*"))
    counts.to("counts")
    counts.materialize("items")
    return app


def run(app: App, spark) -> dict[str, int]:
    with app.start(session=spark, trigger_available_now=True) as running:
        view = running.view("items")
        view.wait_caught_up()
        return {row["item"]: row["n"] for row in (json.loads(value) for _, value in view.scan())}


def forget_the_last_commit(checkpoint: Path) -> None:
    """As if the driver died after the tasks had written, and before Spark recorded that the micro-batch is done."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for path in (commits / f"{last}", commits / f".{last}.crc"):
        path.unlink(missing_ok=True)


def test_repeated_micro_batch_is_not_written_again(spark, odradek, tmp_path):
    bootstrap = odradek.bootstrap_servers
    topics = Topics(bootstrap)
    topics.create("orders", "dear", "counts")
    topics.send("orders", *({"item": f"i{number % 3}", "price": float(number)} for number in range(20)))
    app = application(bootstrap, tmp_path)
    layout = Layout(str(tmp_path), "shop")
    assert run(app, spark) == {"i0": 7, "i1": 7, "i2": 6}
    forget_the_last_commit(Path(layout.checkpoint("orders")))
    assert run(app, spark) == {"i0": 7, "i1": 7, "i2": 6}
    assert Counter(row["price"] for row in committed(bootstrap, "dear")) == Counter(float(n) for n in range(11, 20))
    counts = [(row["item"], row["n"]) for row in committed(bootstrap, "counts")]
    assert sorted(counts) == [("i0", 7), ("i1", 7), ("i2", 6)]


def test_deleted_checkpoint_is_refused_until_the_application_is_reset(spark, odradek, tmp_path):
    bootstrap = odradek.bootstrap_servers
    topics = Topics(bootstrap)
    topics.create("orders", "dear", "counts")
    topics.send("orders", {"item": "a", "price": 20.0})
    run(application(bootstrap, tmp_path / "one"), spark)
    with pytest.raises(PipelineError, match="odradek streams reset"):
        run(application(bootstrap, tmp_path / "two"), spark)
    assert len(committed(bootstrap, "dear")) == 1
    cluster = Admin(bootstrap)
    planned = plan_reset(Layout(str(tmp_path / "one"), "shop"), cluster)
    assert "shop.orders-markers" in planned.topics
    carry_out(planned, cluster)
    assert run(application(bootstrap, tmp_path / "two"), spark) == {"a": 1}
