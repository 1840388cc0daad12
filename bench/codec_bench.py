"""Measures the cost of decoding and encoding, per message: `python bench/codec_bench.py`."""

from __future__ import annotations

import time
from collections.abc import Callable

from odradek.base.ports import Region
from odradek.protocol.fetch import decode_fetch_request
from odradek.protocol.fetch_response import FetchedPartition, encode_fetch_response
from odradek.protocol.headers import decode_request_header, request_frame
from odradek.protocol.messages import p00_produce, p01_fetch, p03_metadata, p08_offset_commit, p18_api_versions
from odradek.protocol.produce import ProduceOutcome, decode_produce_request, encode_produce_response
from odradek.protocol.schema import Message

ROUNDS = 5


def us(call: Callable[[], object]) -> float:
    """The best of a few rounds, microseconds of CPU per call."""
    call()
    repeats = 1
    while True:
        started = time.process_time()
        for _ in range(repeats):
            call()
        if time.process_time() - started > 0.02:
            break
        repeats *= 2
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(repeats):
            call()
        rounds.append((time.process_time() - started) / repeats * 1e6)
    return min(rounds)


class NoFile:
    path = ""

    def pin(self) -> None: ...

    def unpin(self) -> None: ...


def decoding(name: str, message: Message, version: int) -> tuple[str, float]:
    data = message.encode(version)
    return f"{name} decode", us(lambda: type(message).decode(data, version))


def encoding(name: str, message: Message, version: int) -> tuple[str, float]:
    return f"{name} encode", us(lambda: message.encode(version))


def metadata(topics: int, partitions: int) -> p03_metadata.MetadataResponse:
    return p03_metadata.MetadataResponse(
        brokers=[p03_metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)],
        cluster_id="abcdefghijklmnopqrstuv",
        topics=[
            p03_metadata.MetadataResponseTopic(
                name=f"topic-{topic}",
                topic_id=bytes(16),
                partitions=[
                    p03_metadata.MetadataResponsePartition(
                        partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1]
                    )
                    for index in range(partitions)
                ],
            )
            for topic in range(topics)
        ],
    )


def produce(partitions: int, size: int) -> bytes:
    rows = [p00_produce.PartitionProduceData(index=index, records=bytes(size)) for index in range(partitions)]
    topics = [p00_produce.TopicProduceData(name="orders", partition_data=rows)]
    return p00_produce.ProduceRequest(acks=1, timeout_ms=30000, topic_data=topics).encode(9)


def fetch(partitions: int, version: int) -> bytes:
    rows = [p01_fetch.FetchPartition(partition=index, partition_max_bytes=1 << 20) for index in range(partitions)]
    topics = [p01_fetch.FetchTopic(topic="orders", topic_id=bytes(range(16)), partitions=rows)]
    return p01_fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics).encode(version)


def generated() -> list[tuple[str, float]]:
    apis = [p18_api_versions.ApiVersion(api_key=key, max_version=12) for key in range(60)]
    software = p18_api_versions.ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.16.1")
    wanted = p03_metadata.MetadataRequest(topics=[p03_metadata.MetadataRequestTopic(name="orders")])
    commit = p08_offset_commit.OffsetCommitRequest(
        group_id="group",
        member_id="member",
        topics=[
            p08_offset_commit.OffsetCommitRequestTopic(
                name="orders",
                partitions=[
                    p08_offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_metadata="")
                    for index in range(10)
                ],
            )
        ],
    )
    committed = p08_offset_commit.OffsetCommitResponse(
        topics=[
            p08_offset_commit.OffsetCommitResponseTopic(
                name="orders",
                partitions=[
                    p08_offset_commit.OffsetCommitResponsePartition(partition_index=index) for index in range(10)
                ],
            )
        ]
    )
    return [
        decoding("ApiVersions request v3", software, 3),
        encoding("ApiVersions response v3, 60 APIs", p18_api_versions.ApiVersionsResponse(api_keys=apis), 3),
        decoding("Metadata request v12, 1 topic", wanted, 12),
        encoding("Metadata response v12, 1x10", metadata(1, 10), 12),
        encoding("Metadata response v12, 100x10", metadata(100, 10), 12),
        decoding("OffsetCommit request v8, 10p", commit, 8),
        encoding("OffsetCommit response v8, 10p", committed, 8),
    ]


def handwritten() -> list[tuple[str, float]]:
    rows = []
    frame = memoryview(bytearray(request_frame(0, 9, 1, "rdkafka", b"")))
    rows.append(("request header v2", us(lambda: decode_request_header(frame, 4, len(frame)))))
    for partitions, size in ((1, 100), (1, 16384), (1, 1 << 20), (10, 16384)):
        body = memoryview(bytearray(produce(partitions, size)))
        name = f"Produce request v9, {partitions}p x {size} B decode"
        rows.append((name, us(lambda body=body: decode_produce_request(body, 9, 0, len(body)))))
    for partitions in (1, 10):
        answers = [("orders", [ProduceOutcome(index, 0, 42, -1, 0) for index in range(partitions)])]
        name = f"Produce response v9, {partitions}p encode"
        rows.append((name, us(lambda answers=answers: encode_produce_response(9, 1, answers))))
    for version in (12, 17):
        for partitions in (1, 10, 100):
            body = memoryview(bytearray(fetch(partitions, version)))
            name = f"Fetch request v{version}, {partitions}p decode"
            rows.append((name, us(lambda body=body, v=version: decode_fetch_request(body, v, 0, len(body)))))
    for partitions, size in ((1, 1 << 20), (10, 65536)):
        regions = [FetchedPartition(i, 0, 9, 9, 0, Region(NoFile(), 0, size)) for i in range(partitions)]
        name = f"Fetch response v12, {partitions}p x {size} B encode"
        rows.append((name, us(lambda regions=regions: encode_fetch_response(12, 1, [("orders", regions)]))))
    return rows


if __name__ == "__main__":
    for name, cost in generated() + handwritten():
        print(f"{name:48} {cost:9.2f} us")
