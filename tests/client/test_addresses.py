"""Addresses of brokers, as librdkafka reads them."""

from __future__ import annotations

import pytest

from odradek.client.addresses import BadAddress, parse_addresses, protocols


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("127.0.0.1", "127.0.0.1:9092"),
        ("127.0.0.1:9093", "127.0.0.1:9093"),
        ("broker.example", "broker.example:9092"),
        ("[::1]:9093", "[::1]:9093"),
        ("[::1]", "[::1]:9092"),
        ("::1", "[::1]:9092"),
        ("PLAINTEXT://one:1", "one:1"),
        ("plaintext://one:1", "one:1"),
        ("SSL://one:1,Sasl_Ssl://[::1]", "one:1,[::1]:9092"),
        (" one , two:2 ,, ", "one:9092,two:2"),
    ],
)
def test_the_default_port_is_kafkas(text: str, read: str) -> None:
    assert ",".join(map(str, parse_addresses(text))) == read


def test_the_protocols_that_addresses_name() -> None:
    assert protocols("one:1") == set()
    assert protocols("plaintext://one:1, SSL://two:2,Sasl_ssl://three") == {"PLAINTEXT", "SSL", "SASL_SSL"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' names no broker; write HOST:PORT, such as 127.0.0.1:9092"),
        (" , ", "' , ' names no broker; write HOST:PORT, such as 127.0.0.1:9092"),
        ("one:", "'one:': a port is a number from 1 to 65535, such as 127.0.0.1:9092"),
        ("one:kafka", "'one:kafka': a port is a number from 1 to 65535, such as 127.0.0.1:9092"),
        ("one:0", "'one:0': a port is a number from 1 to 65535, such as 127.0.0.1:9092"),
        ("one:65536", "'one:65536': a port is a number from 1 to 65535, such as 127.0.0.1:9092"),
        (":9092", "':9092' is not HOST:PORT, such as 127.0.0.1:9092"),
        ("[::1", "'[::1' is not HOST:PORT, such as 127.0.0.1:9092"),
        ("one two:1", "'one two:1' is not HOST:PORT, such as 127.0.0.1:9092"),
        ("PLAINTEXT://SSL://one:1", "'PLAINTEXT://SSL://one:1' is not HOST:PORT, such as 127.0.0.1:9092"),
        ("http://one:1", "'http://one:1' is not HOST:PORT, such as 127.0.0.1:9092"),
        ("one:1,two:x", "'two:x': a port is a number from 1 to 65535, such as 127.0.0.1:9092"),
    ],
)
def test_text_that_names_no_broker_is_refused_with_an_example(text: str, sentence: str) -> None:
    with pytest.raises(BadAddress) as refused:
        parse_addresses(text)
    assert str(refused.value) == sentence
