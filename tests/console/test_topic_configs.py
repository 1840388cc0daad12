"""Configs of topics on pages: units, groups, and what is kept of them between updates."""

from __future__ import annotations

import pytest

from odradek.client import Admin
from odradek.console.collecting.cluster import Cluster
from odradek.console.collecting.snapshot import Topic
from odradek.console.configs import Kind, read_configs
from odradek.console.pages.topics import Row
from odradek.console.topic_configs import KEPT_S, OTHERS, ListedConfigs, grouped, readable
from odradek.testing import Embedded


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("retention.ms", "604800000", "7 d"),
        ("retention.ms", "-1", "unlimited"),
        ("retention.bytes", "1073741824", "1.00 GiB"),
        ("flush.messages", str(2**63 - 1), "never"),
        ("cleanup.policy", "delete", ""),
        ("min.cleanable.dirty.ratio", "0.5", ""),
        ("anything", None, ""),
    ],
)
def test_values_have_units_of_people(name: str, value: str | None, text: str):
    assert readable(name, value) == text


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ({"cleanup.policy": "delete", "retention.ms": "3600000", "retention.bytes": "-1"}, "1 h"),
        ({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "1024"}, "1.00 KiB"),
        ({"cleanup.policy": "delete", "retention.ms": "3600000", "retention.bytes": "1024"}, "1 h or 1.00 KiB"),
        ({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}, "unlimited"),
        ({"cleanup.policy": "compact"}, "keeps the last of each key"),
        (None, ""),
    ],
)
def test_retention_is_one_sentence(configs: dict[str, str] | None, text: str):
    topic = Topic(name="t", topic_id="", is_internal=False, partitions=())
    assert Row(topic=topic, records=0, size=0, rate=0.0, configs=configs).retention == text


def test_all_configs_of_a_broker_are_in_a_named_group(broker: Embedded):
    Admin(broker.bootstrap_servers).create_topic("grouped", 1)
    cluster = Cluster(broker.bootstrap_servers)
    titles = dict(grouped(read_configs(cluster, Kind.TOPIC, "grouped")))
    cluster.close()
    assert OTHERS not in titles, [config.name for config in titles[OTHERS]]


def test_listed_configs_are_asked_for_once_in_a_while(broker: Embedded):
    admin = Admin(broker.bootstrap_servers)
    admin.create_topic("kept", 1, {"retention.ms": "1000"})
    now_s = [100.0]
    cluster = Cluster(broker.bootstrap_servers)
    configs = ListedConfigs(cluster, now_s=lambda: now_s[0])
    assert configs.of(["kept", "absent"])["kept"]["retention.ms"] == "1000"
    admin.set_topic_config("kept", retention_ms="2000")
    assert configs.of(["kept"])["kept"]["retention.ms"] == "1000"
    now_s[0] += KEPT_S + 1
    assert configs.of(["kept"])["kept"]["retention.ms"] == "2000"
    admin.set_topic_config("kept", retention_ms="3000")
    configs.forget("kept")
    assert configs.of(["kept"])["kept"]["retention.ms"] == "3000"
    cluster.close()


def test_silent_brokers_are_asked_again_only_after_a_while(monkeypatch: pytest.MonkeyPatch):
    cluster = Cluster("127.0.0.1:1", within_s=0.1)
    asked: list[object] = []
    anyone = cluster.anyone
    monkeypatch.setattr(cluster, "anyone", lambda *request: [asked.append(request), anyone(*request)][1])
    now_s = [100.0]
    configs = ListedConfigs(cluster, now_s=lambda: now_s[0])
    assert configs.of(["t"]) == {}
    assert configs.of(["t"]) == {}
    assert len(asked) == 1
    now_s[0] += KEPT_S + 1
    configs.of(["t"])
    assert len(asked) == 2
    cluster.close()
