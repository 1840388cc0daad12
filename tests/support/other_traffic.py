"""Writers and readers like in `traffic`, for the other Python clients: with their defaults, and acks=all."""

from __future__ import annotations

import asyncio
import gc
import itertools
import warnings
from collections.abc import Awaitable
from types import TracebackType

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import RecordMetadata
from kafka import KafkaConsumer, KafkaProducer

from support.onlooker import WITHIN_S
from support.traffic import AnyWriter, OnThread, Place

PAUSE_S = 0.005


class _Reader(OnThread):
    def __init__(self, bootstrap: str, topic: str, group: str, *, commit_ms: int = 5000) -> None:
        super().__init__(bootstrap, topic)
        self.config = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": commit_ms,
        }
        self.seen: list[tuple[Place, int]] = []


class _LeavesSockets(OnThread):
    """kafka-python does not close the sockets of failed connections; the garbage collector does."""

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, problem, trace)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


class KafkaPythonWriter(_LeavesSockets, AnyWriter):
    def go_on(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", enable_idempotence=True)
        sent = []
        try:
            for number in itertools.count():
                if self._ending.wait(PAUSE_S):
                    break
                future = producer.send(self.topic, b"%d" % number, partition=number % self.partitions)
                future.add_callback(self._delivered, number)
                future.add_errback(self.errors.append)
                sent.append(future)
            for future in sent:
                future.get(WITHIN_S)
        finally:
            producer.close()

    def _delivered(self, number: int, where: RecordMetadata) -> None:
        self.acknowledge(where.partition, where.offset, number)


class KafkaPythonReader(_LeavesSockets, _Reader):
    def go_on(self) -> None:
        reader = KafkaConsumer(self.topic, **self.config)
        try:
            # Fetch the metadata first. Otherwise the group leader may not know the topic yet and assign no partitions.
            reader.partitions_for_topic(self.topic)
            while not self._ending.is_set():
                for messages in reader.poll(200).values():
                    self.seen += (((each.partition, each.offset), int(each.value)) for each in messages)
        finally:
            reader.close()


class AioKafkaWriter(AnyWriter):
    def go_on(self) -> None:
        asyncio.run(self._write())

    async def _write(self) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, enable_idempotence=True) as producer:
            sent: list[Awaitable[None]] = []
            for number in itertools.count():
                if self._ending.is_set():
                    break
                answer = await producer.send(self.topic, b"%d" % number, partition=number % self.partitions)
                sent.append(asyncio.ensure_future(self._delivered(number, answer)))
                await asyncio.sleep(PAUSE_S)
            await asyncio.gather(*sent)

    async def _delivered(self, number: int, answer: Awaitable[RecordMetadata]) -> None:
        where = await answer
        self.acknowledge(where.partition, where.offset, number)


class AioKafkaReader(_Reader):
    def go_on(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        async with AIOKafkaConsumer(self.topic, **self.config) as reader:
            while not self._ending.is_set():
                for messages in (await reader.getmany(timeout_ms=200)).values():
                    self.seen += (((each.partition, each.offset), int(each.value)) for each in messages)
