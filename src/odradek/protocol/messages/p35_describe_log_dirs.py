"""API 35, DescribeLogDirs, versions 1-5. Derived from Apache Kafka's schemas: see NOTICE."""

from __future__ import annotations

from odradek.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class DescribableLogDirTopic(Struct):
    topic: str = string("1+", default="")
    partitions: list[int] = array(int32, "1+", factory=list)


class DescribeLogDirsRequest(Message, key=35, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, "1+", nullable="1+", factory=list)


class DescribeLogDirsPartition(Struct):
    partition_index: int = int32("1+", default=0)
    partition_size: int = int64("1+", default=0)
    offset_lag: int = int64("1+", default=0)
    is_future_key: bool = boolean("1+", default=False)


class DescribeLogDirsTopic(Struct):
    name: str = string("1+", default="")
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "1+", factory=list)


class DescribeLogDirsResult(Struct):
    error_code: int = int16("1+", default=0)
    log_dir: str = string("1+", default="")
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "1+", factory=list)
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)
    is_cordoned: bool = boolean("5+", default=False)


class DescribeLogDirsResponse(Message, key=35, versions="1-5", flexible="2+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("3+", default=0)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, "1+", factory=list)
