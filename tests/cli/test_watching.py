"""What `odradek consume` reports about brokers that do not answer."""

from __future__ import annotations

import socket

import pytest
from confluent_kafka import KafkaError, KafkaException

from odradek.cli.watching import Watch


class Unanswered:
    """A consumer whose metadata request times out."""

    def list_topics(self, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_one_unanswered_request_is_not_reported_while_an_address_accepts_connections(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """librdkafka may have asked the one broker of three that died."""
    with socket.create_server(("127.0.0.1", 0)) as alive:
        where = f"127.0.0.1:1,127.0.0.1:{alive.getsockname()[1]}"
        watch = Watch(where, ("t",))
        watch.look(Unanswered())
        assert (capsys.readouterr().err, watch.suspicious) == ("", True)
        watch.look(Unanswered())
        assert f"{where} does not answer" in capsys.readouterr().err


def test_addresses_that_refuse_connections_are_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    Watch("127.0.0.1:1", ("t",)).look(Unanswered())
    assert "127.0.0.1:1 does not answer" in capsys.readouterr().err
