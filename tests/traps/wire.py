"""A minimal client that sends and receives bytes on a blocking socket."""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import Any, Self

from odradek.protocol.batch import Codec, encode_batch, iter_batches, iter_records
from odradek.protocol.headers import has_tagged_response_header, request_frame
from odradek.protocol.messages.p00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.p01_fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.p03_metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.p19_create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.records import Record

TIMEOUT_S = 120.0


class Wire:
    """One connection. `ask` is for tests that do not test the codec; the others write their own bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        self._topic_ids: dict[str, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    # Bytes

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, frame: bytes) -> None:
        self.send(struct.pack(">i", len(frame)) + frame)

    def receive_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def is_closed(self) -> bool:
        """Wait until the broker closes the connection. False if it sends data before."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            piece = self.socket.recv(min(count - len(received), 1 << 20))
            if not piece:
                raise ConnectionError(f"closed after {len(received)} of {count} bytes")
            received += piece
        return bytes(received)

    # Messages

    def post(self, request: Any, version: int, *, more: bytes = b"") -> int:
        """Send without waiting for the reply. `more` are extra bytes after the request."""
        self._correlation_id += 1
        body = request.encode(version) + more
        self.send(request_frame(type(request).KEY, version, self._correlation_id, "trap", body))
        return self._correlation_id

    def collect(self, request: Any, version: int) -> tuple[int, Any]:
        """The next reply, decoded as the reply to `request`, and its correlation id."""
        response = response_class(type(request))
        frame = self.receive_frame()
        start = 5 if has_tagged_response_header(response.KEY, version) else 4
        return struct.unpack_from(">i", frame)[0], response.decode(frame, version, start)

    def ask(self, request: Any, version: int, *, more: bytes = b"") -> Any:
        sent = self.post(request, version, more=more)
        correlation_id, answer = self.collect(request, version)
        assert correlation_id == sent
        return answer

    # Topics and records

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Config keys with underscores: `cleanup_policy="compact"`."""
        wanted = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=wanted)
        answer = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7).topics[0]
        assert answer.error_code == 0, answer.error_message
        return name

    def topic_id(self, name: str) -> bytes:
        if name not in self._topic_ids:
            self._topic_ids[name] = self.metadata(name, 12).topics[0].topic_id
        return self._topic_ids[name]

    def metadata(self, name: str, version: int, **fields: Any) -> Any:
        return self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)], **fields), version)

    def produce(self, topic: str, data: bytes | None, *, version: int = 9, partition: int = 0, **fields: Any) -> Any:
        """The reply for the partition."""
        request = self.produce_request(topic, data, version=version, partition=partition, **fields)
        return self.ask(request, version).responses[0].partition_responses[0]

    def produce_request(
        self, topic: str, data: bytes | None, *, version: int = 9, partition: int = 0, **fields: Any
    ) -> ProduceRequest:
        key = {"name": topic} if version < 13 else {"topic_id": self.topic_id(topic)}
        partitions = [PartitionProduceData(index=partition, records=data)]
        topics = [TopicProduceData(partition_data=partitions, **key)]
        return ProduceRequest(topic_data=topics, **{"acks": -1, "timeout_ms": 60_000, **fields})

    def fetch(self, topic: str, wanted: dict[int, int], *, version: int = 12, **fields: Any) -> dict[int, Any]:
        """`wanted` maps partitions to offsets. Returns the reply of each partition."""
        answer = self.ask(self.fetch_request(topic, wanted, version=version, **fields), version)
        return {part.partition_index: part for topic in answer.responses for part in topic.partitions}

    def fetch_request(
        self,
        topic: str,
        wanted: dict[int, int],
        *,
        version: int = 12,
        partition_max_bytes: int = 1 << 20,
        current_leader_epoch: int = -1,
        **fields: Any,
    ) -> FetchRequest:
        key = {"topic": topic} if version < 13 else {"topic_id": self.topic_id(topic)}
        partitions = [
            FetchPartition(
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                current_leader_epoch=current_leader_epoch,
            )
            for index, offset in wanted.items()
        ]
        topics = [FetchTopic(partitions=partitions, **key)] if wanted else []
        return FetchRequest(topics=topics, **{"max_wait_ms": 0, "min_bytes": 1, **fields})


def response_class(request: type) -> Any:
    return getattr(sys.modules[request.__module__], request.__name__.removesuffix("Request") + "Response")


def now_ms() -> int:
    return int(time.time() * 1000)


def batch(
    *values: bytes, key: bytes | None = None, timestamp: int | None = None, codec: Codec = Codec.NONE, **fields: Any
) -> bytearray:
    stamp = now_ms() if timestamp is None else timestamp
    records = [Record(key=key, value=value, timestamp=stamp) for value in values]
    return encode_batch(records, codec=codec, **fields)


def records_of(data: bytes) -> list[Record]:
    return [record for found in iter_batches(data) for record in iter_records(found.data)]
