"""Preparation of several nodes on one machine: settings that are kept, and steps that are never repeated."""

from __future__ import annotations

import shutil
import socket

import pytest

from odradek.base.errors import KafkaError, UnusableDirectory
from odradek.metadata.bootstrap import VOTERS_CHECKPOINT, decode_voters
from odradek.node import local_cluster
from odradek.node.config import NodeConfig
from odradek.node.format import decode_identity
from odradek.node.local_cluster import holds_several, local_nodes, remembered
from odradek.node.machine import locked
from odradek.node.properties import parse_properties
from odradek.node.tcp_ports import PortTaken, free_port


def planned(directory, count=3, port=0, **overrides):
    return local_nodes(count, directory, "127.0.0.1", port, overrides)


def identities(nodes):
    return [decode_identity((node.data / "meta.properties").read_bytes()) for node in nodes]


def voters(node):
    return decode_voters((node.data / VOTERS_CHECKPOINT).read_bytes())


def test_three_nodes_are_all_brokers_and_voters(tmp_path):
    nodes = planned(tmp_path / "data")
    assert [node.node_id for node in nodes] == [1, 2, 3]
    assert len({identity.cluster_id for identity in identities(nodes)}) == 1
    assert voters(nodes[0]) == voters(nodes[1]) == voters(nodes[2])
    assert voters(nodes[0]).keys == tuple((i.node_id, i.directory_id) for i in identities(nodes))
    for node, voter in zip(nodes, voters(nodes[0]).voters, strict=True):
        config = NodeConfig.from_properties(node.properties.read_text())
        assert config.node_id == node.node_id
        assert config.client_listener.bind == node.clients
        assert voter.endpoints == (("CONTROLLER", "127.0.0.1", config.controller_listener.bind.port),)
        assert len(config.bootstrap_servers) == 3


def test_brokers_with_separate_controllers(tmp_path):
    nodes = local_nodes(2, tmp_path, "127.0.0.1", 0, {}, controllers=3, own={2: {"broker.rack": "b"}})
    assert [node.roles for node in nodes] == ["broker", "broker", "controller", "controller", "controller"]
    assert [voter.key.voter_id for voter in voters(nodes[4]).voters] == [3, 4, 5]
    assert len({identity.cluster_id for identity in identities(nodes)}) == 1
    configs = [NodeConfig.from_properties(node.properties.read_text()) for node in nodes]
    assert [config.rack for config in configs] == [None, "b", None, None, None]
    assert all(config.bootstrap_servers == tuple(node.controllers for node in nodes[2:]) for config in configs)
    with pytest.raises(UnusableDirectory, match="whose node 1 is broker"):
        local_nodes(5, tmp_path, "127.0.0.1", 0, {})


def test_ports_and_ids_are_kept(tmp_path):
    first = planned(tmp_path)
    before = identities(first)
    again = planned(tmp_path)
    assert again == first
    assert identities(again) == before


def test_client_ports_may_change_while_controller_ports_stay(tmp_path):
    first = planned(tmp_path)
    moved = planned(tmp_path, port=20_001)
    assert [node.clients.port for node in moved] == [20_001, 20_002, 20_003]
    assert [node.controllers for node in moved] == [node.controllers for node in first]


def started_again(directory, host=None, port=0, **given):
    """Starts again as `odradek up -n 3` does."""
    return local_nodes(3, directory, host, port, given, before=remembered(directory))


def properties(nodes):
    return [parse_properties(node.properties.read_text()) for node in nodes]


def test_new_settings_override_those_of_the_last_start(tmp_path):
    planned(tmp_path, **{"num.partitions": "6", "log.retention.ms": "1000"})
    nodes = started_again(tmp_path, **{"num.partitions": "4"})
    assert [(each["num.partitions"], each["log.retention.ms"]) for each in properties(nodes)] == [("4", "1000")] * 3
    nodes = started_again(tmp_path)
    assert [(each["num.partitions"], each["log.retention.ms"]) for each in properties(nodes)] == [("4", "1000")] * 3


def test_edits_of_users_are_kept(tmp_path):
    first = planned(tmp_path)
    file = first[1].properties
    written = f"# more room\n{file.read_text()}\nbroker.rack = north\nnum.io.threads: 2\n"
    file.write_text(written)
    nodes = started_again(tmp_path)
    assert nodes == first
    assert file.read_text() == written
    started_again(tmp_path, **{"num.io.threads": "3", "num.partitions": "2"})
    assert file.read_text() == written.replace("num.io.threads: 2\n", "num.io.threads=3\n") + "num.partitions=2\n"
    assert [each.get("broker.rack") for each in properties(nodes)] == [None, "north", None]


def test_edited_listeners_are_kept_until_another_port_is_given(tmp_path):
    first = planned(tmp_path)
    file, port = first[0].properties, first[0].clients.port
    by_hand = f"listeners=CONTROLLER://{first[0].controllers},CLIENTS://0.0.0.0:{port}"
    text = file.read_text().replace(
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://{first[0].controllers}", by_hand
    )
    more = f"{text}advertised.listeners=CLIENTS://127.0.0.1:{port},CONTROLLER://{first[0].controllers}\n"
    file.write_text(more + "listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT\n")
    nodes = started_again(tmp_path)
    assert f"{by_hand}\n" in file.read_text()
    assert (nodes[0].clients.host, nodes[0].clients.port) == ("0.0.0.0", port)
    with pytest.raises(KafkaError, match=r"advertised\.listeners: CLIENTS is not among listeners"):
        started_again(tmp_path, host="127.0.0.1")
    assert f"{by_hand}\n" in file.read_text()


def test_a_moved_directory_is_used_at_its_new_place(tmp_path):
    planned(tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    nodes = started_again(tmp_path / "there")
    assert [each["log.dirs"] for each in properties(nodes)] == [str(tmp_path / "there" / n) for n in "123"]


def test_a_taken_port_is_not_chosen(tmp_path):
    # Below the ephemeral ports, so that no outgoing connection takes the client ports.
    port = 31_001
    with socket.create_server(("127.0.0.1", port)):
        nodes = planned(tmp_path, port=port - local_cluster.CONTROLLER_PORT_DISTANCE)
        assert port not in [node.controllers.port for node in nodes]


def test_no_port_is_given_to_two_nodes(tmp_path):
    """The port is free until a node listens there, so it may be drawn again."""
    drawn = [free_port("127.0.0.1") for _ in range(20)]
    again = iter([*drawn[:1] * 3, *drawn])
    nodes = local_nodes(3, tmp_path, "127.0.0.1", 0, {}, choose_port=lambda _: next(again))
    assert len({endpoint.port for node in nodes for endpoint in node.endpoints}) == 6


def test_settings_apply_to_every_node(tmp_path):
    nodes = planned(tmp_path, **{"num.partitions": "6"})
    configs = [NodeConfig.from_properties(node.properties.read_text()) for node in nodes]
    assert [config.broker.num_partitions for config in configs] == [6, 6, 6]


def test_invalid_settings_leave_no_files_behind(tmp_path):
    with pytest.raises(KafkaError, match=r"no\.such\.key"):
        planned(tmp_path, **{"no.such.key": "1"})
    assert not holds_several(tmp_path)


def test_an_interrupted_formation_continues_with_the_same_ids(tmp_path):
    with locked(tmp_path / "2"), pytest.raises(OSError, match="another node runs"):
        planned(tmp_path)
    (first,) = [decode_identity((tmp_path / "1" / "meta.properties").read_bytes())]
    assert holds_several(tmp_path)
    nodes = planned(tmp_path)
    assert identities(nodes)[0] == first
    assert {identity.cluster_id for identity in identities(nodes)} == {first.cluster_id}
    assert voters(nodes[0]) == voters(nodes[2])


def test_a_lost_disk_is_not_formatted_again(tmp_path):
    nodes = planned(tmp_path)
    shutil.rmtree(nodes[1].data)
    planned(tmp_path)
    assert not nodes[1].data.exists()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_cluster_of_another_size_is_refused(tmp_path, count):
    planned(tmp_path)
    with pytest.raises(UnusableDirectory, match="cluster of 3 nodes"):
        planned(tmp_path, count=count)


def test_the_directory_of_a_single_node_is_refused(tmp_path):
    (tmp_path / "meta.properties").touch()
    with pytest.raises(UnusableDirectory, match="a single node"):
        planned(tmp_path)


def test_a_taken_port_of_the_last_start_is_reported_before_any_node_starts(tmp_path):
    nodes = planned(tmp_path)
    with socket.create_server(("127.0.0.1", nodes[2].controllers.port)), pytest.raises(PortTaken, match="in use"):
        planned(tmp_path)


def test_client_and_controller_ports_must_differ(tmp_path):
    nodes = planned(tmp_path)
    before = nodes[0].properties.read_text()
    with pytest.raises(PortTaken, match=r"node 1 listens on .* already"):
        planned(tmp_path, port=nodes[0].controllers.port)
    assert nodes[0].properties.read_text() == before
