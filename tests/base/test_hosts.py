"""Which texts cannot be the host of a node."""

from __future__ import annotations

import socket

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.hosts import CONNECT_ERRORS, HOST_CHARACTERS_MAX, host_problem, require_hosts
from odradek.metadata.image import Listener

LONGEST = ".".join(["a" * 63] * 3 + ["b" * 61])


@pytest.mark.parametrize(
    "host",
    ["localhost", "kafka_1", "broker-0.kafka.svc.cluster.local.", "10.0.0.1", "::1", "fe80::1%eth0", "bücher.example"]
    + [LONGEST],
)
def test_hosts_that_a_resolver_takes(host: str) -> None:
    assert host_problem(host) is None


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        ("", "empty"),
        ("a..b", "between its dots"),
        (".a", "between its dots"),
        (".", "between its dots"),
        ("a" * 64 + ".example", "63 characters"),
        (LONGEST + "b", "254 characters"),
        ("a" * 30_000, "30000 characters"),
        ("kafka\0", "control character"),
        ("kafka 1", "space"),
        ("bü..b", "internationalized"),
        ("ü" * 60 + ".example", "internationalized"),
        ("a\udcff", "internationalized"),
    ],
)
def test_hosts_that_cannot_be_connected_to(host: str, problem: str) -> None:
    assert problem in str(host_problem(host))
    with pytest.raises(CONNECT_ERRORS):
        socket.create_connection((host, 1), 1)


def test_an_endpoint_with_such_a_host_is_refused_and_the_quoted_text_is_short() -> None:
    fine = Listener("PLAINTEXT", "localhost", 9092, 0)
    require_hosts([fine])
    with pytest.raises(KafkaError, match=r"'a\.\.b' cannot be the host of a node: it has nothing") as refused:
        require_hosts([fine, Listener("PLAINTEXT", "a..b", 9092, 0)])
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError) as refused:
        require_hosts([Listener("PLAINTEXT", "a" * 30_000, 9092, 0)], ErrorCode.INVALID_REGISTRATION)
    assert refused.value.code is ErrorCode.INVALID_REGISTRATION
    assert len(str(refused.value)) < 2 * HOST_CHARACTERS_MAX
