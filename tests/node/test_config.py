import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.node.config import Endpoint, NodeConfig, NodeListener, VoterAddress

PLAIN_OTHER = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"}
COMBINED = {
    "node.id": "2",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "one:9093,two:9093,three:9093",
}
BROKER_ONLY = {
    "node.id": "2",
    "process.roles": "broker",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "one:9093",
}


def refusal(settings):
    with pytest.raises(KafkaError) as refused:
        NodeConfig.parse(settings)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    return refused.value.message


def test_without_settings_a_node_listens_only_on_loopback():
    config = NodeConfig.parse()
    assert config.node_id == 1
    assert config.roles == ("broker", "controller")
    assert config.client_listener == NodeListener(
        name="PLAINTEXT", bind=Endpoint(host="127.0.0.1", port=9092), advertised=None
    )
    assert config.controller_listener is None
    assert config.is_alone


def test_settings_have_kafkas_names():
    config = NodeConfig.parse(
        {
            "node.id": "7",
            "listeners": "PLAINTEXT://0.0.0.0:0",
            "advertised.listeners": "PLAINTEXT://broker.example:9094",
            "log.dirs": "/data",
            "num.partitions": "4",
            "broker.rack": "r1",
        }
    )
    assert config.node_id == 7
    assert config.client_listener.bind == Endpoint(host="0.0.0.0", port=0)
    assert config.client_listener.advertised == Endpoint(host="broker.example", port=9094)
    assert config.data_dir == "/data"
    assert config.rack == "r1"
    assert config.broker.num_partitions == 4


def test_an_ipv6_listener():
    listener = NodeConfig.parse({"listeners": "PLAINTEXT://[::1]:9092"}).client_listener
    assert listener.bind == Endpoint(host="::1", port=9092)
    assert str(listener.bind) == "[::1]:9092"


def test_an_unknown_key_is_refused_with_the_nearest_known_one():
    message = refusal({"num.partition": "3"})
    assert "num.partition" in message
    assert "did you mean num.partitions?" in message


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"listeners": "SSL://localhost:9093"}, "SSL is not supported yet"),
        ({"listeners": "PLAINTEXT://a:1,OTHER://b:2", **PLAIN_OTHER}, "exactly one"),
        ({"listeners": "PLAINTEXT://a:70000"}, "not of the form"),
        ({"listeners": "localhost:9092"}, "not of the form"),
        ({"listeners": "PLAINTEXT://:9092"}, "set advertised.listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients can reach"),
        ({"listeners": "PLAINTEXT://a..b:9092"}, "listeners: 'a..b' cannot be a host name: it has nothing"),
        ({"advertised.listeners": f"PLAINTEXT://{'a' * 64}.b:9092"}, "63 characters without a dot"),
        ({"advertised.listeners": "PLAINTEXT://kafka\0:9092"}, "'kafka\\x00' cannot be a host name: it contains"),
        ({**COMBINED, "controller.quorum.bootstrap.servers": "one:1,two..b:1"}, "'two..b' cannot be a host name"),
        ({**COMBINED, "controller.quorum.voters": "2@a:1,3@b..c:1"}, "'b..c' cannot be a host name"),
        ({"http.listener": "[1..2]:9644"}, "http.listener: '1..2' cannot be a host name"),
        ({"log.dirs": "a,b"}, "exactly one directory"),
        ({"process.roles": "zookeeper"}, "must be one of: broker, controller"),
        ({"process.roles": ""}, "must be broker, controller, or both"),
        ({"process.roles": "broker"}, "controller.quorum.bootstrap.servers"),
        ({"process.roles": "controller"}, "name it in controller.listener.names"),
        ({**COMBINED, "process.roles": "controller"}, "PLAINTEXT is for clients"),
        ({"node.id": "1", "broker.id": "2"}, "node.id and broker.id differ"),
        ({"listeners": "EXTERNAL://a:1"}, "add EXTERNAL:PLAINTEXT"),
        ({"listeners": "PLAINTEXT://a:1,plaintext://b:1"}, "twice"),
        ({"advertised.listeners": "OTHER://a:1", **PLAIN_OTHER}, "OTHER is not among listeners"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "LISTENER:PROTOCOL"),
        ({"listener.security.protocol.map": "PLAINTEXT:SSL"}, "SSL is not supported yet"),
        ({"inter.broker.listener.name": "REPLICATION"}, "not REPLICATION"),
        ({"controller.quorum.bootstrap.servers": "a:1"}, "name it in controller.listener.names"),
        ({**COMBINED, "controller.quorum.bootstrap.servers": ""}, "set controller.quorum.bootstrap.servers, too"),
        ({**COMBINED, "controller.quorum.bootstrap.servers": "a"}, "not of the form host:port"),
        ({**COMBINED, "controller.quorum.bootstrap.servers": "a:0"}, "other nodes can reach"),
        ({**COMBINED, "listeners": "PLAINTEXT://a:9092,CONTROLLER://a:0"}, "needs a fixed port"),
        ({**COMBINED, "listeners": "PLAINTEXT://a:9092,CONTROLLER://:9093"}, "every interface for CONTROLLER"),
        ({**COMBINED, "listeners": "PLAINTEXT://a:9092"}, "must name exactly one of listeners"),
        ({**COMBINED, "listeners": "CONTROLLER://a:9093"}, "exactly one for clients"),
        ({**COMBINED, "process.roles": "broker"}, "CONTROLLER is for controllers"),
        ({**COMBINED, "controller.quorum.voters": "1@a:1,1@b:1"}, "a voter twice"),
        ({**COMBINED, "controller.quorum.voters": "1@a:1,3@b:1"}, "does not name this node, 2"),
        ({**COMBINED, "controller.quorum.voters": "a:1"}, "id@host:port"),
        ({**BROKER_ONLY, "controller.quorum.voters": "2@a:1"}, "which is only a broker"),
        ({"group.min.session.timeout.ms": "2000000"}, "larger than"),
        ({"node.id": "-1"}, "at least 0"),
        ({"log.segment.bytes": "1000"}, "at least 1048576"),
        ({"connections.max.idle.ms": "-1"}, "at least 100"),
        ({"replica.high.watermark.checkpoint.interval.ms": "0"}, "at least 1"),
        ({"log.flush.offset.checkpoint.interval.ms": "0"}, "at least 1"),
        ({"group.initial.rebalance.delay.ms": "-1"}, "at least 0"),
    ],
)
def test_unsupported_settings_are_refused(settings, said):
    assert said in refusal(settings)


def test_a_node_of_a_cluster_has_a_listener_for_clients_and_one_for_controllers():
    config = NodeConfig.parse(COMBINED)
    assert (config.is_broker, config.is_controller, config.is_alone) == (True, True, False)
    assert config.client_listener.bind == Endpoint(host="127.0.0.1", port=9092)
    assert config.controller_listener == NodeListener(
        name="CONTROLLER", bind=Endpoint(host="127.0.0.1", port=9093), advertised=None
    )
    assert config.bootstrap_servers == tuple(Endpoint(host=host, port=9093) for host in ("one", "two", "three"))


def test_each_listener_may_advertise_another_address():
    told = "PLAINTEXT://two.example:9092,CONTROLLER://two.example:9093"
    config = NodeConfig.parse(
        {**COMBINED, "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "advertised.listeners": told}
    )
    assert [str(listener.reached_at) for listener in config.listeners] == ["two.example:9092", "two.example:9093"]


def test_controller_addresses_come_from_the_voters():
    settings = {**COMBINED, "controller.quorum.voters": "1@one:1,2@two:2", "controller.quorum.bootstrap.servers": ""}
    config = NodeConfig.parse({**settings, "listeners": "PLAINTEXT://two:9092,CONTROLLER://:9093"})
    assert config.voters == (
        VoterAddress(node_id=1, endpoint=Endpoint(host="one", port=1)),
        VoterAddress(node_id=2, endpoint=Endpoint(host="two", port=2)),
    )
    assert config.bootstrap_servers == (Endpoint(host="one", port=1), Endpoint(host="two", port=2))
    assert config.controller_listener.reached_at == Endpoint(host="two", port=2)


def test_a_controller_without_the_broker_role_has_no_client_listener():
    config = NodeConfig.parse({**COMBINED, "process.roles": "controller", "listeners": "CONTROLLER://two:9093"})
    assert config.client_listener is None
    assert config.controller_listener.name == "CONTROLLER"
    assert not config.is_broker


def test_a_broker_without_the_controller_role_knows_its_controllers():
    config = NodeConfig.parse(BROKER_ONLY)
    assert config.controller_listener is None
    assert config.controller_listener_name == "CONTROLLER"
    assert config.bootstrap_servers == (Endpoint(host="one", port=9093),)


def test_all_invalid_keys_are_reported_at_once():
    message = refusal({"zookeeper.connect": "x", "num.partitions": "none", "log.segment.bytes": "1", "node.id": "1"})
    assert len(message.splitlines()) == 3
    for key in ("zookeeper.connect", "num.partitions", "log.segment.bytes"):
        assert key in message


def test_a_file_as_kafkas_server_properties():
    config = NodeConfig.from_properties(
        """
        # The role of this server
        process.roles=broker,controller
        node.id : 2
        listeners=PLAINTEXT://127.0.0.1:9092,\
                  CONTROLLER://127.0.0.1:9093
        controller.listener.names=CONTROLLER
        controller.quorum.bootstrap.servers=localhost:9093
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
        inter.broker.listener.name=PLAINTEXT
        log.dirs=/var/lib/odradek
        """
    )
    assert config.node_id == 2
    assert config.controller_listener.bind.port == 9093
    assert config.data_dir == "/var/lib/odradek"


STOCK = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_kafkas_shipped_files_are_accepted_and_keys_without_effect_are_listed():
    config = NodeConfig.from_properties(STOCK)
    assert config.broker.ignored == (
        "num.network.threads",
        "num.io.threads",
        "socket.send.buffer.bytes",
        "socket.receive.buffer.bytes",
        "num.recovery.threads.per.data.dir",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
    )
    assert config.broker.ignored[0] not in config.broker.static


def test_the_same_keys_in_toml():
    config = NodeConfig.from_toml(
        """
        node.id = 7
        log.dirs = "data"
        auto.create.topics.enable = false
        listeners = ["PLAINTEXT://127.0.0.1:9000"]
        [log.retention]
        hours = 24
        """
    )
    assert (config.node_id, config.data_dir, config.broker.auto_create_topics_enable) == (7, "data", False)
    assert config.broker.static["log.retention.hours"] == "24"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("ssl.keystore.location", "there is no TLS yet"),
        ("authorizer.class.name", "every client may do everything"),
        ("num.partitons", "num.partitions"),
    ],
)
def test_unsupported_security_keys_are_refused_with_a_reason(key, said):
    with pytest.raises(KafkaError, match=said):
        NodeConfig.parse({key: "1"})
