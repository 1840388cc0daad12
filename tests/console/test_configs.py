"""Configs: their sources, secrets, and changes of one."""

from __future__ import annotations

import pytest

from odradek.client.addresses import parse_addresses
from odradek.console.collecting.cluster import Cluster
from odradek.console.configs import Config, Kind, _config, change_config, read_configs
from odradek.console.frame import Refused
from odradek.protocol.messages.p32_describe_configs import DescribeConfigsResourceResult
from support.waiting import wait_until


@pytest.fixture(scope="module")
def cluster(broker):
    cluster = Cluster(broker.bootstrap_servers)
    cluster.learn({1: parse_addresses(broker.bootstrap_servers)[0]})
    yield cluster
    cluster.close()


def one(cluster: Cluster, name: str) -> Config:
    return next(each for each in read_configs(cluster, Kind.BROKER, "1") if each.name == name)


def test_a_changed_config_says_where_it_was_set_and_what_it_was(cluster):
    assert one(cluster, "log.retention.ms").is_default
    change_config(cluster, Kind.BROKER, "1", "log.retention.ms", "60000", for_all=True)
    wait_until(lambda: one(cluster, "log.retention.ms").source == "all brokers", "the broker has the value")
    change_config(cluster, Kind.BROKER, "1", "log.retention.ms", "70000")
    wait_until(lambda: one(cluster, "log.retention.ms").source == "this broker", "the broker has its own value")
    found = one(cluster, "log.retention.ms")
    assert (found.value, ("all brokers", "60000") in found.below) == ("70000", True)
    for for_all in (False, True):
        change_config(cluster, Kind.BROKER, "1", "log.retention.ms", None, for_all=for_all)
    wait_until(lambda: one(cluster, "log.retention.ms").is_default, "the broker has its default again")


def test_a_dry_run_changes_nothing_and_refuses_what_is_wrong(cluster):
    change_config(cluster, Kind.BROKER, "1", "log.retention.ms", "60000", dry_run=True)
    assert one(cluster, "log.retention.ms").is_default
    with pytest.raises(Refused, match=r"log.retention.ms was not changed"):
        change_config(cluster, Kind.BROKER, "1", "log.retention.ms", "soon", dry_run=True)


def test_what_only_a_restart_changes_is_read_only(cluster):
    assert one(cluster, "log.dirs").is_read_only


@pytest.mark.parametrize(
    ("name", "is_sensitive", "is_secret"),
    [
        ("ssl.keystore.password", True, True),
        ("my.plugin.secret", False, True),
        ("sasl.jaas.config", False, True),
        ("ssl.keystore.key", False, True),
        ("log.dirs", False, False),
        ("key.converter", False, False),
    ],
)
def test_secrets_are_never_shown(name, is_sensitive, is_secret):
    found = _config(DescribeConfigsResourceResult(name=name, value="hunter2", is_sensitive=is_sensitive))
    assert (found.is_secret, found.value) == (is_secret, None if is_secret else "hunter2")


def test_a_topic_that_does_not_exist_is_refused_with_the_reason(cluster):
    with pytest.raises(Refused, match="topic nothing cannot be read"):
        read_configs(cluster, Kind.TOPIC, "nothing")
