import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.node.config import Endpoint, NodeConfig


def refusal(settings):
    with pytest.raises(KafkaError) as refused:
        NodeConfig.parse(settings)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    return refused.value.message


def test_without_settings_a_node_listens_on_the_loopback_alone():
    config = NodeConfig.parse()
    assert config.node_id == 1
    assert config.listener == Endpoint(host="127.0.0.1", port=9092)
    assert config.advertised is None


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
    assert config.listener == Endpoint(host="0.0.0.0", port=0)
    assert config.advertised == Endpoint(host="broker.example", port=9094)
    assert config.data_dir == "/data"
    assert config.rack == "r1"
    assert config.broker.num_partitions == 4


def test_an_ipv6_listener():
    assert NodeConfig.parse({"listeners": "PLAINTEXT://[::1]:9092"}).listener == Endpoint(host="::1", port=9092)


def test_an_unknown_key_is_refused_with_the_nearest_known_one():
    message = refusal({"num.partition": "3"})
    assert "num.partition" in message
    assert "did you mean num.partitions?" in message


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"listeners": "SSL://localhost:9093"}, "SSL is not supported yet"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "exactly one"),
        ({"listeners": "PLAINTEXT://a:70000"}, "not of the form"),
        ({"listeners": "localhost:9092"}, "not of the form"),
        ({"listeners": "PLAINTEXT://:9092"}, "set advertised.listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients can reach"),
        ({"log.dirs": "a,b"}, "exactly one directory"),
        ({"process.roles": "broker"}, "broker,controller"),
        ({"group.min.session.timeout.ms": "2000000"}, "larger than"),
        ({"node.id": "-1"}, "at least 0"),
        ({"log.segment.bytes": "1000"}, "at least 1048576"),
        ({"connections.max.idle.ms": "-1"}, "at least 100"),
        ({"replica.high.watermark.checkpoint.interval.ms": "0"}, "at least 1"),
        ({"log.flush.offset.checkpoint.interval.ms": "0"}, "at least 1"),
        ({"group.initial.rebalance.delay.ms": "-1"}, "at least 0"),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused(settings, said):
    assert said in refusal(settings)
