"""What the collector notices of a live cluster, and how soon."""

from __future__ import annotations

from odradek.client.admin import Admin
from odradek.console.service import running
from odradek.console.settings import ConsoleSettings
from odradek.console.verdict import verdict
from odradek.testing import Embedded
from support.waiting import wait_until


def test_a_broker_that_hangs_is_noticed_and_delays_nothing_for_long():
    with (
        Embedded(brokers=3) as cluster,
        running(ConsoleSettings(bootstrap=cluster.bootstrap_servers, port=0)) as (console, _),
    ):
        Admin(cluster.bootstrap_servers).create_topic("orders", 6)
        wait_until(lambda: "orders" in console.snapshot.topics, "the topic is known")
        wait_until(lambda: len(console.snapshot.ends.get("orders", ())) == 6, "the log ends are known")
        cluster.nodes[1].pause()
        try:
            wait_until(lambda: "Broker 1" in verdict(console.snapshot).sentence, lambda: verdict(console.snapshot))
            before = console.snapshot.number
            wait_until(lambda: console.snapshot.number >= before + 3, "snapshots go on")
            assert {each.broker_id for each in console.snapshot.brokers if each.problem} == {1}
        finally:
            cluster.nodes[1].resume()
        wait_until(lambda: all(each.is_alive for each in console.snapshot.brokers), "the broker is back")
        told = [each.text for each in console.snapshot.events]
        assert any("Broker 1 is gone" in text for text in told)
        assert any("Broker 1 is back" in text for text in told)
