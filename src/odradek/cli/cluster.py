"""What commands share: where the cluster is, how to reach it, and how its refusals are told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

F = TypeVar("F", bound=Callable[..., Any])

FAILED, NOT_FOUND, TIMED_OUT = 1, 3, 4
REQUEST_TIMEOUT_S = 15.0

_NOT_FOUND_CODES = {"UNKNOWN_TOPIC_OR_PART", "GROUP_ID_NOT_FOUND", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"}
_TIMEOUT_CODES = {"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN"}


def bootstrap_option(command: F) -> F:
    return click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        envvar=["ODRADEK_BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS"],
        default="127.0.0.1:9092",
        show_default=True,
        help="Where the cluster is; also ODRADEK_BOOTSTRAP_SERVERS.",
    )(command)


def admin_client(bootstrap: str) -> AdminClient:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": bootstrap}, logger=_silent_logger())


def client_config(bootstrap: str, **more: object) -> dict[str, object]:
    return {"bootstrap.servers": bootstrap, "logger": _silent_logger(), **more}


def _silent_logger() -> logging.Logger:
    """librdkafka repeats connection failures every second; the command says it once, itself."""
    logger = logging.getLogger("odradek.cli.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


@contextmanager
def refusals_told(bootstrap: str) -> Iterator[None]:
    """Turns the client library's errors into one sentence and an exit code."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as refused:
        _tell(refused, bootstrap)


def _tell(refused: KafkaException, bootstrap: str) -> NoReturn:
    error = refused.args[0]
    name = error.name()
    if name in _TIMEOUT_CODES:
        fail(
            f"no answer from {bootstrap} ({error.str()}).\n"
            "Is a broker running there? Start one with `odradek up`, or name another with -b HOST:PORT.",
            TIMED_OUT,
        )
    fail(f"{error.str()} ({name})", NOT_FOUND if name in _NOT_FOUND_CODES else FAILED)


def fail(message: str, code: int = FAILED) -> NoReturn:
    click.echo(f"odradek: {message}", err=True)
    raise SystemExit(code)


def key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--config")
    return key, value
