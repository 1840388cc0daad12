"""Which step is hosted where: what is on disk does not move when a sink or a map is added. No Spark."""

from __future__ import annotations

from odradek.streams import App, F, tumbling
from odradek.streams.compile.fingerprint import fingerprint
from odradek.streams.compile.topology.levels import topology


def planned(build):
    app = App("t")
    build(app)
    (query,) = app.queries()
    return query, topology(query.sinks)


def joined(first=lambda orders, customers: None, before=lambda rows: rows):
    """Orders with their customers; `first` is written above that, `before` comes before the join and the window."""

    def build(app):
        orders = app.stream("orders", schema="id string, n int, at timestamp", time="at")
        customers = app.table("customers", key="id", schema="id string, name string")
        first(orders, customers)
        before(orders).join(customers, on="id").to("named")
        before(orders).group_by("id").window(tumbling("1 minute")).agg(n=F.sum("n")).to("sums")

    return build


def same(row):
    return row


def mapped(rows):
    return rows.map(same, "id string, n int, at timestamp")


def texts(query):
    return [line.text for line in fingerprint(query)]


def test_a_sink_that_is_added_above_the_others_changes_neither_sources_nor_state():
    query, plan = planned(joined())
    more, wider = planned(joined(first=lambda _, customers: customers.materialize("c")))
    assert [topic.name for topic in plan.topics] == ["customers", "orders"]
    assert [topic.name for topic in wider.topics] == ["customers", "orders"]
    assert texts(query) == texts(more)
    assert query.name == more.name == "orders"


def test_a_map_that_is_added_before_a_keyed_step_changes_no_state():
    query, plan = planned(joined())
    more, deeper = planned(joined(before=mapped))
    assert plan.depth < deeper.depth
    assert texts(query) == texts(more)
    assert _stages(plan) == _stages(deeper) == {"table_lookup-1": 1, "aggregate-1": 1}
    assert _numbers(plan) == _numbers(deeper)


def test_keyed_steps_with_as_many_keyed_steps_above_them_are_at_one_level():
    def build(app):
        orders = app.stream("orders", schema="id string, n int, at timestamp", time="at")
        orders.group_by("id").window(tumbling("1 minute")).agg(n=F.sum("n")).to("sums")
        once = mapped(orders).deduplicate("id", within="1 minute")
        mapped(mapped(once)).group_by("id").window(tumbling("1 minute")).agg(n=F.sum("n")).to("others")

    _, plan = planned(build)
    assert _stages(plan) == {"aggregate-1": 1, "deduplicate-1": 1, "aggregate-2": 2}
    levels = {node.name: level for node, level in plan.level.items()}
    assert (levels["aggregate-1"], levels["deduplicate-1"], levels["aggregate-2"]) == (2, 2, 5)


def _stages(plan):
    return {
        node.name: plan.stage(level)
        for level in range(1, plan.depth + 1)
        if plan.is_keyed(level)
        for node in plan.hosted(level)
        if node.stateful
    }


def _numbers(plan):
    return sorted(source.number for source in plan.sources.values())
