"""When alerts open and close, what is sent, and what survives a restart."""

from __future__ import annotations

import re

import pytest

from odradek.base import limits
from odradek.monitor.alerts.alerts import Alerts, Change
from odradek.monitor.alerts.outbox import RETRY_MAX_MS, Outbox
from odradek.monitor.alerts.rules import Rule
from odradek.monitor.alerts.samples import Sample, read_samples

NOW = 1_700_000_000_000
HIGH = Rule(name="high", metric="load", above=10, for_s=60, send=("ops",))


def load(value: float, host: str = "a") -> Sample:
    return Sample("load", (("host", host),), value)


def told(alerts: Alerts, after_s: float, *samples: Sample, source: str = "node") -> list[tuple[str, str]]:
    notices = alerts.step(NOW + int(after_s * 1000), {source: list(samples)})
    return [(notice.change.value, dict(notice.alert.key.labels).get("host", "")) for notice in notices]


def test_an_alert_opens_once_after_its_time_and_closes_once() -> None:
    alerts = Alerts([HIGH])
    assert told(alerts, 0, load(11)) == []
    assert told(alerts, 59, load(11)) == []
    assert told(alerts, 60, load(12)) == [("open", "a")]
    assert told(alerts, 600, load(12)) == []
    assert told(alerts, 601, load(10)) == [("closed", "a")]
    assert told(alerts, 602, load(10)) == []


def test_a_short_peak_opens_nothing() -> None:
    alerts = Alerts([HIGH])
    told(alerts, 0, load(11))
    told(alerts, 30, load(9))
    assert told(alerts, 60, load(11)) == []


def test_each_series_is_an_alert_of_its_own() -> None:
    alerts = Alerts([Rule(name="r", metric="load", above=1)])
    assert told(alerts, 0, load(2, "a"), load(2, "b"), load(0, "c")) == [("open", "a"), ("open", "b")]
    assert told(alerts, 1, load(2, "a")) == [("closed", "b")], "a series that is gone closes its alert"


def test_a_source_that_cannot_be_read_neither_opens_nor_closes() -> None:
    alerts = Alerts([HIGH])
    told(alerts, 0, load(11))
    assert alerts.step(NOW + 61_000, {"node": None}) == []
    assert told(alerts, 62, load(11)) == [("open", "a")]
    assert alerts.step(NOW + 70_000, {"node": None}) == []
    assert alerts.opened


def test_an_alert_can_wait_before_it_closes() -> None:
    alerts = Alerts([Rule(name="r", metric="load", above=10, close_after_s=30)])
    told(alerts, 0, load(11))
    assert told(alerts, 1, load(1)) == []
    assert told(alerts, 20, load(11)) == []
    assert told(alerts, 40, load(1)) == []
    assert told(alerts, 70, load(1)) == [("closed", "a")]


@pytest.mark.parametrize(
    ("rule", "value", "crossed"),
    [
        ({"above": 1.0}, 1.0, False),
        ({"below": 1.0}, 0.5, True),
        ({"below": 1.0}, 1.0, False),
        ({"above": 1.0}, float("nan"), False),
        ({"above": 1.0, "labels": {"host": re.compile("a|b")}}, 2.0, True),
        ({"above": 1.0, "labels": {"host": re.compile("b")}}, 2.0, False),
        ({"above": 1.0, "labels": {"rack": re.compile("x")}}, 2.0, False),
        ({"above": 1.0, "metric": "other"}, 2.0, False),
    ],
)
def test_thresholds_and_labels(rule: dict[str, object], value: float, crossed: bool) -> None:
    assert Rule(**({"name": "r", "metric": "load"} | rule)).is_crossed(load(value)) is crossed


def test_an_open_alert_survives_a_restart_without_a_second_message() -> None:
    before = Alerts([Rule(name="r", metric="load", above=1, send=("ops",))])
    [opened] = before.step(NOW, {"node": [load(2)]})
    after = Alerts([Rule(name="r", metric="load", above=1, send=("ops",))], before.opened)
    assert told(after, 5, load(2)) == []
    [closed] = after.step(NOW + 6_000, {"node": [load(0)]})
    assert (closed.change, closed.alert.opened_ms, closed.value) == (Change.CLOSED, NOW, 0)
    assert opened.id != closed.id


def test_an_open_alert_whose_rule_was_removed_is_closed() -> None:
    before = Alerts([Rule(name="r", metric="load", above=1)])
    told(before, 0, load(2))
    assert told(Alerts([], before.opened), 1, load(2)) == [("closed", "a")]


# Delivery


def notices(*hosts: str, send: tuple[str, ...] = ("ops",)) -> list:
    return Alerts([Rule(name="r", metric="load", above=1, send=send)]).step(
        NOW, {"node": [load(2, host) for host in hosts]}
    )


def hosts(outbox: Outbox, now_ms: int) -> list[str]:
    return [dict(message.notice.alert.key.labels)["host"] for message in outbox.due(now_ms)]


def test_messages_to_a_receiver_are_delivered_in_order() -> None:
    outbox = Outbox()
    outbox.add(notices("a", "b", send=("ops", "page")))
    first, other = outbox.due(NOW)
    assert (first.receiver, other.receiver, hosts(outbox, NOW)) == ("ops", "page", ["a", "a"])
    outbox.delivered(first)
    assert hosts(outbox, NOW) == ["a", "b"], "page still waits for a"


def test_a_failed_message_is_repeated_later_and_holds_back_the_next() -> None:
    outbox = Outbox()
    outbox.add(notices("a", "b"))
    now = NOW
    for expected_ms in (1_000, 2_000, 4_000):
        [message] = outbox.due(now)
        outbox.failed(message, now)
        assert outbox.due(now + expected_ms - 1) == []
        now += expected_ms
        assert hosts(outbox, now) == ["a"]
    for _ in range(30):
        [message] = outbox.due(now)
        outbox.failed(message, now)
        now += RETRY_MAX_MS
    assert hosts(outbox, now) == ["a"]


def test_the_outbox_is_bounded_and_drops_the_oldest() -> None:
    outbox = Outbox()
    assert outbox.add(notices(*map(str, range(limits.alert_messages_max)))) == 0
    assert outbox.add(notices("new")) == 1
    assert (len(outbox.waiting), hosts(outbox, NOW)) == (limits.alert_messages_max, ["1"])
    outbox.forget(["ops"])
    assert outbox.waiting == []


def test_a_message_may_be_dropped_while_it_is_sent() -> None:
    outbox = Outbox()
    outbox.add(notices("a", "b"))
    [message] = outbox.due(NOW)
    outbox.add(notices(*map(str, range(limits.alert_messages_max))))
    outbox.failed(message, NOW)
    outbox.delivered(message)
    assert hosts(outbox, NOW) == ["0"]


def test_a_label_may_contain_characters_that_end_lines_elsewhere() -> None:
    assert list(read_samples('load{host="a\u2028b"} 1\n', ["load"])) == [load(1, "a\u2028b")]


def test_samples_are_read_from_the_text_of_prometheus() -> None:
    text = """# HELP load The load.
# TYPE load gauge
load{host="a",path="C:\\\\x \\"q\\" {y}"} 1.5
load 3 1700000000000
other 9
load{host="b"} NaN
load{host="c"} +Inf
load{broken 1
load{host="d"} word
"""
    first, second, nan, infinite = read_samples(text, {"load"})
    assert first == ("load", (("host", "a"), ("path", 'C:\\x "q" {y}')), 1.5)
    assert second == ("load", (), 3.0)
    assert nan.value != nan.value
    assert infinite.value == float("inf")
