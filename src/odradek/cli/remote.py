"""What commands share: the cluster's address, its clients, and error messages."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from click.core import ParameterSource

from odradek.base.similar_names import did_you_mean

if TYPE_CHECKING:
    from confluent_kafka import KafkaException, Producer
    from confluent_kafka.admin import AdminClient

F = TypeVar("F", bound=Callable[..., Any])

BOOTSTRAP_VARIABLE = "ODRADEK_BOOTSTRAP"
# Variables that look as if they named the cluster.
ODRADEK_VARIABLES = ("ODRADEK_BOOTSTRAP_SERVERS", "ODRADEK_STREAMS_BOOTSTRAP")
KAFKA_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
FAILED, NOT_FOUND, TIMED_OUT = 1, 3, 4
REQUEST_TIMEOUT_S = 15.0
# After this wait, a command finds out why there is no answer.
PATIENCE_S = 3.0

NOT_FOUND_CODES = {"UNKNOWN_TOPIC_OR_PART", "GROUP_ID_NOT_FOUND", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"}
# Options of all commands that write records.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPRESSION_HELP = "The codec of the batches."
ACKS_HELP = "Replicas that acknowledge a record: no broker, the leader, or all in-sync replicas."
TIMEOUT_CODES = {"_TIMED_OUT", "_MSG_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN"}


def addresses(ctx: click.Context, param: click.Parameter, said: str | None) -> str | None:
    """Adds the default port 9092: librdkafka and our own requests must use the same addresses."""
    from odradek.client.addresses import BadAddress, parse_addresses, protocols

    if ctx.get_parameter_source(param.name or "") is ParameterSource.DEFAULT:
        # Without a default the application names its cluster, and may read Kafka's variable itself.
        _refuse_other_variables(ODRADEK_VARIABLES if said is None else (*ODRADEK_VARIABLES, KAFKA_VARIABLE))
    if others := sorted(protocols(said or "") - {"PLAINTEXT"}):
        raise click.BadParameter(f"{others[0]} is not supported: the command line speaks only PLAINTEXT so far")
    try:
        return said and ",".join(map(str, parse_addresses(said)))
    except BadAddress as wrong:
        raise click.BadParameter(str(wrong)) from None


def _refuse_other_variables(names: Iterable[str]) -> None:
    """A user who set one of them does not mean the default cluster: `topic delete` must not go there."""
    for name in names:
        if os.environ.get(name):
            raise click.UsageError(
                f"{name} is set, but odradek does not read it: set {BOOTSTRAP_VARIABLE}, or use -b HOST:PORT"
            )


def bootstrap_option(command: F) -> F:
    return click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        envvar=BOOTSTRAP_VARIABLE,
        default="127.0.0.1:9092",
        show_default=True,
        callback=addresses,
        metavar="HOST[:PORT],...",
        help="Addresses of the cluster; also ODRADEK_BOOTSTRAP.",
    )(command)


def client_options(command: F) -> F:
    """Adds `-X NAME=VALUE` as `settings`, with Java's or librdkafka's names."""

    def checked(_ctx: click.Context, _param: click.Parameter, said: tuple[str, ...]) -> dict[str, str]:
        from odradek.client.java_names import librdkafka_config
        from odradek.client.refused import RefusedConfig

        try:
            return librdkafka_config(dict(key_value(text, "NAME=VALUE", "-X") for text in said))
        except RefusedConfig as refused:
            raise click.BadParameter(str(refused)) from None

    return click.option(
        "-X", "settings", multiple=True, metavar="NAME=VALUE", callback=checked, help="A client config; repeatable."
    )(command)


def admin_client(bootstrap: str) -> AdminClient:
    """Keep it in a variable until its futures are done: they do not outlive the client."""
    from confluent_kafka.admin import AdminClient

    require_somebody_there(bootstrap)
    return AdminClient({"bootstrap.servers": bootstrap}, logger=silent_logger())


def client_config(bootstrap: str, **more: object) -> dict[str, object]:
    require_somebody_there(bootstrap)
    return {"bootstrap.servers": bootstrap, "logger": silent_logger(), **more}


def silent_logger() -> logging.Logger:
    """librdkafka repeats connection failures every second; the command itself reports them once."""
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
    if name in TIMEOUT_CODES:
        from odradek.cli.diagnosis import require_majority

        require_somebody_there(bootstrap)
        require_majority(bootstrap)
        fail(
            f"{bootstrap} accepts connections, but did not answer in time ({error.str()}).\n"
            "Find the cause with: odradek cluster health",
            TIMED_OUT,
        )
    fail(f"{error.str()} ({name})", NOT_FOUND if name in NOT_FOUND_CODES else FAILED)


def require_somebody_there(bootstrap: str) -> None:
    """Ends the command at once when no address accepts connections. librdkafka would retry until its timeout."""
    from odradek.client.addresses import BadAddress, parse_addresses
    from odradek.client.knocking import refusals

    try:
        refused = refusals(parse_addresses(bootstrap))
    except BadAddress as wrong:
        fail(str(wrong))
    if refused:
        fail_unreachable(bootstrap, next(iter(refused.values())))


def fail_unreachable(bootstrap: str, why: str) -> NoReturn:
    several = "HOST:PORT,HOST:PORT"
    fail(
        f"no answer from {bootstrap} ({why}).\n"
        "Is a broker running there? Start one with `odradek up`. If the cluster has other brokers, name several:\n"
        f"-b {several}, or export {BOOTSTRAP_VARIABLE}={several}",
        TIMED_OUT,
    )


def unknown_topic() -> str:
    """A format string, for the name of the topic."""
    return f'topic "{{}}" does not exist. {_list_topics()}'


def fail_without_topic(name: str, known: Iterable[str]) -> NoReturn:
    fail(f'topic "{name}" does not exist.{did_you_mean(name, known)} {_list_topics()}', NOT_FOUND)


def fail_without_partition(topic: str, index: int, count: int) -> NoReturn:
    numbers = "1 partition: 0" if count == 1 else f"{count} partitions: 0 to {count - 1}"
    fail(f'topic "{topic}" has no partition {index}. It has {numbers}', NOT_FOUND)


def _list_topics() -> str:
    return f"List topics with: odradek topic ls{_same_cluster()}"


def unknown_group() -> str:
    """A format string, for the name of the group."""
    return f'group "{{}}" does not exist. List groups with: odradek group ls{_same_cluster()}'


def _same_cluster() -> str:
    """The option that makes another command use the cluster of this one."""
    context = click.get_current_context()
    named = context.get_parameter_source("bootstrap") is ParameterSource.COMMANDLINE
    return f" -b {context.params['bootstrap']}" if named else ""


def fail(message: str, code: int = FAILED) -> NoReturn:
    complain(message)
    raise SystemExit(code)


def complain(message: str) -> None:
    """In the form of click's own errors."""
    click.echo(f"Error: {message}", err=True)


def require_topics(names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            fail_without_topic(name, known)


def require_partitions(topic: str, numbers: Iterable[int], known: Collection[int]) -> None:
    for index in numbers:
        if index not in known:
            fail_without_partition(topic, index, len(known))


def require_writable_topic(producer: Producer, name: str) -> None:
    from odradek.controller.topic_names import what_is_wrong_with

    # This request creates the topic if the broker allows that.
    if producer.list_topics(name, timeout=REQUEST_TIMEOUT_S).topics[name].error is not None:
        wrong = what_is_wrong_with(name)
        if wrong:
            fail(f"invalid topic name: {wrong}")
        near = did_you_mean(name, producer.list_topics(timeout=REQUEST_TIMEOUT_S).topics)
        fail(f'topic "{name}" does not exist.{near} Create it with: odradek topic create {name}', NOT_FOUND)


def key_value(text: str, form: str = "KEY=VALUE", option: str = "--config") -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not {form}", param_hint=option)
    return key, value
