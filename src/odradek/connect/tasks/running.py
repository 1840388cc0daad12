"""Builds one run of a task from its spec, and turns every end of it into an Outcome. Spark calls `run_task`."""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from confluent_kafka import Consumer

from odradek.client.admin import Admin
from odradek.client.configuring import client_logger
from odradek.client.java_names import librdkafka_config
from odradek.connect.common_options import CommonOptions, SinkOptions, SourceOptions
from odradek.connect.conversion import Conversion, Encoded
from odradek.connect.interface import NeedsUser, Source
from odradek.connect.options import parse
from odradek.connect.plugins import plugin
from odradek.connect.tasks.leash import LeaseLost, Leash
from odradek.connect.tasks.sink_task import SinkRun
from odradek.connect.tasks.source_task import SourceRun
from odradek.connect.tasks.spec import Ending, Outcome, TaskSpec
from odradek.connect.tasks.tolerance import Tolerance
from odradek.connect.tasks.writing import COMMON, AtLeastOnce, MissingTopics, Transactional, Writer, produced
from odradek.connect.topic_creation import topic_rules
from odradek.connect.transformation import Transforms
from odradek.spark.task_producer import TaskProducer

TRACE_CHARS_MAX = 20_000
LOG_LINES_PER_RUN_MAX = 1_000


def run_task(specs: Iterable[TaskSpec]) -> Iterator[Outcome]:
    """A function for `mapPartitions`. Errors of the connector are data: Spark must not retry an old run."""
    for spec in specs:
        yield run(spec)


def run(spec: TaskSpec) -> Outcome:
    try:
        with Leash(spec.driver, spec.token, spec.run) as leash, _logs(leash):
            if leash.stop_for is not None:
                return Outcome(ending=Ending.STOPPED)
            return _run(spec, leash)
    except LeaseLost as lost:
        # Not a failure of the task: it runs again when the service has its own lease back.
        return Outcome(ending=Ending.STOPPED, trace=str(lost))
    except Exception as failed:  # noqa: BLE001 (the boundary of a task: the service reports it)
        trace = "".join(traceback.format_exception(failed))[-TRACE_CHARS_MAX:]
        return Outcome(ending=Ending.FAILED, trace=trace, needs_user=isinstance(failed, NeedsUser))


def _run(spec: TaskSpec, leash: Leash) -> Outcome:
    kind = plugin(spec.given["connector.class"])
    options = _options(SourceOptions if kind.kind == "source" else SinkOptions, spec)
    connector = kind.loaded(_options(kind.loaded.Config, spec))
    with contextlib.closing(connector):
        tolerance = Tolerance(options, rest=leash.rest)
        conversion, transforms = Conversion.of(spec.given, connector.converter), Transforms(spec.given)
        connector.connector = spec.connector
        if isinstance(options, SourceOptions):
            return SourceRun(
                spec=spec,
                source=connector,
                conversion=conversion,
                transforms=transforms,
                tolerance=tolerance,
                writer=_writer(spec, options, is_tracking=type(connector).stored is not Source.stored),
                missing_topics=MissingTopics(Admin(spec.bootstrap, spec.clients), topic_rules(options.topic_creation)),
                leash=leash,
                poll_interval_s=options.poll_interval_ms / 1000,
            ).run()
        consumer = _consumer(spec, options)
        with contextlib.closing(consumer):
            return SinkRun(
                spec=spec,
                sink=connector,
                conversion=conversion,
                transforms=transforms,
                tolerance=tolerance,
                consumer=consumer,
                letters=DeadLetters(spec, options),
                leash=leash,
            ).run()


def _options(kind: type, spec: TaskSpec) -> Any:  # noqa: ANN401 (an instance of `kind`)
    parsed: Any = parse(kind, spec.given)
    if parsed.config is None:
        raise ValueError("; ".join(parsed.errors))
    return parsed.config


def _writer(spec: TaskSpec, options: SourceOptions, *, is_tracking: bool) -> Writer:
    config: dict[str, str | bool] = {
        **({"delivery.report.only.error": False} if is_tracking else {}),
        **spec.clients,
        **librdkafka_config(options.producer_override),
        "bootstrap.servers": spec.bootstrap,
    }
    if spec.transactional_id is None:
        return AtLeastOnce(config)
    return Transactional(config, spec.transactional_id)


def _consumer(spec: TaskSpec, options: SinkOptions) -> Consumer:
    return Consumer(
        {
            "auto.offset.reset": "earliest",
            # At the end of the log a fetch waits at the broker, not here.
            "fetch.queue.backoff.ms": 5,
            **spec.clients,
            **librdkafka_config(options.consumer_override),
            "bootstrap.servers": spec.bootstrap,
            "group.id": f"connect-{spec.connector}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        },
        logger=client_logger(),
    )


class DeadLetters:
    """Writes the dead letters of a sink, and creates their topic before the first one."""

    def __init__(self, spec: TaskSpec, options: CommonOptions) -> None:
        self._config = {**COMMON, **spec.clients, "bootstrap.servers": spec.bootstrap}
        self._admin = Admin(spec.bootstrap, spec.clients)
        self._options = options
        self._is_created = False

    def write(self, letters: Sequence[Encoded]) -> None:
        if not self._is_created:
            self._admin.create_topic(
                self._options.errors_deadletterqueue_topic_name,
                1,
                replication_factor=self._options.errors_deadletterqueue_topic_replication_factor,
            )
            self._is_created = True
        with TaskProducer(self._config) as producer:
            producer.send(map(produced, letters))
            producer.finish()


@contextlib.contextmanager
def _logs(leash: Leash) -> Iterator[None]:
    """Sends the log lines of this run to the service, which shows them in `odradek connect logs`."""
    handler = _ToLeash(leash)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(min(before, logging.INFO))
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


class _ToLeash(logging.Handler):
    def __init__(self, leash: Leash) -> None:
        super().__init__(logging.INFO)
        self._leash = leash
        self._left = LOG_LINES_PER_RUN_MAX

    def emit(self, record: logging.LogRecord) -> None:
        if self._left > 0:
            self._left -= 1
            line = {"level": record.levelname, "logger": record.name, "text": record.getMessage()}
            self._leash.report({"log": line, "at": record.created})
