"""Translates Java's client config names to librdkafka's.

A config with the same name and meaning passes. Others are translated, or refused with a reason and a substitute. No
config is accepted and ignored. librdkafka itself checks its names and values.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException, Producer

from odradek.client import java_security
from odradek.client.java_tables import REFUSED, RENAMED, SAME
from odradek.client.refused import RefusedConfig

__all__ = ["RefusedConfig", "librdkafka_config"]


def librdkafka_config(java: Mapping[str, str]) -> dict[str, str]:
    """The configs in librdkafka's names, with names and values checked by librdkafka. Raises RefusedConfig."""
    config: dict[str, str] = {}
    for name, value in java.items():
        if name in java_security.NAMES:
            continue
        if name in REFUSED:
            raise RefusedConfig(name, *REFUSED[name])
        said = TRANSLATED[name](value, java) if name in TRANSLATED else {RENAMED.get(name, name): value}
        for ours, translated in said.items():
            _ask_librdkafka(ours, translated, said_as=name)
        config |= said
    return config | java_security.security_config(java)


def _ask_librdkafka(name: str, value: str, said_as: str) -> None:
    # The second name is unknown to librdkafka, so that no client is created when the first one is valid.
    end = "odradek.end.of.config"
    try:
        Producer({name: value, end: ""})
    except KafkaException as refused:
        told = refused.args[0].str().strip()
        if f'"{end}"' in told:
            return
        if told.startswith("No such configuration property"):
            raise RefusedConfig(said_as, "Kafka's clients know no such config", _nearest(said_as)) from None
        raise RefusedConfig(said_as, told) from None
    except (TypeError, AttributeError) as refused:
        raise RefusedConfig(said_as, f"it cannot be set as text ({refused})") from None


def _nearest(name: str) -> str:
    known = SAME | RENAMED.keys() | TRANSLATED.keys() | java_security.NAMES
    return " or ".join(difflib.get_close_matches(name, sorted(known), n=2, cutoff=0.75))


Translation = Callable[[str, Mapping[str, str]], dict[str, str]]


def _buffer_memory(value: str, _: Mapping[str, str]) -> dict[str, str]:
    return {"queue.buffering.max.kbytes": str(max(_number("buffer.memory", value) >> 10, 1))}


def _fetch_max_bytes(value: str, _: Mapping[str, str]) -> dict[str, str]:
    # librdkafka refuses a fetch size above its receive limit.
    room = _number("fetch.max.bytes", value) + 512
    return {"fetch.max.bytes": value} | ({"receive.message.max.bytes": str(room)} if room > 100_000_000 else {})


def _host_verification(value: str, _: Mapping[str, str]) -> dict[str, str]:
    return {"ssl.endpoint.identification.algorithm": value or "none"}


def _cipher_suites(value: str, _: Mapping[str, str]) -> dict[str, str]:
    if "TLS_" in value:
        raise RefusedConfig(
            "ssl.cipher.suites", "these are Java's names of ciphers", "OpenSSL's names, with colons between them"
        )
    return {"ssl.cipher.suites": value}


def _offset_reset(value: str, _: Mapping[str, str]) -> dict[str, str]:
    return {"auto.offset.reset": "error" if value == "none" else value}


def _security_protocol(value: str, _: Mapping[str, str]) -> dict[str, str]:
    return {"security.protocol": value.lower()}


def _kinit(value: str, _: Mapping[str, str]) -> dict[str, str]:
    if " " not in value.strip():
        raise RefusedConfig(
            "sasl.kerberos.kinit.cmd",
            "Java's value is a path; librdkafka's is a whole command line with a good default",
            "leave it out, or write the arguments too",
        )
    return {"sasl.kerberos.kinit.cmd": value}


def _token_endpoint(value: str, java: Mapping[str, str]) -> dict[str, str]:
    """In Java, an endpoint alone selects OIDC tokens."""
    method = {} if "sasl.oauthbearer.method" in java else {"sasl.oauthbearer.method": "oidc"}
    return {"sasl.oauthbearer.token.endpoint.url": value} | method


def _default_is(default: str, ours: str) -> Translation:
    """Java's -1 (system default, or never) is 0 in librdkafka."""
    return lambda value, _: {ours: "0" if value == default else value}


def _level_of(codec: str) -> Translation:
    """Java has a level for each codec; only the level of the codec in use applies."""
    return lambda value, java: {"compression.level": value} if java.get("compression.type") == codec else {}


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise RefusedConfig(name, f"{value!r} is not a number of bytes") from None


TRANSLATED: dict[str, Translation] = {
    "auto.offset.reset": _offset_reset,
    "buffer.memory": _buffer_memory,
    "compression.gzip.level": _level_of("gzip"),
    "compression.lz4.level": _level_of("lz4"),
    "compression.zstd.level": _level_of("zstd"),
    "connections.max.idle.ms": _default_is("-1", "connections.max.idle.ms"),
    "fetch.max.bytes": _fetch_max_bytes,
    "receive.buffer.bytes": _default_is("-1", "socket.receive.buffer.bytes"),
    "sasl.kerberos.kinit.cmd": _kinit,
    "sasl.oauthbearer.token.endpoint.url": _token_endpoint,
    "security.protocol": _security_protocol,
    "send.buffer.bytes": _default_is("-1", "socket.send.buffer.bytes"),
    "ssl.cipher.suites": _cipher_suites,
    "ssl.endpoint.identification.algorithm": _host_verification,
}
