"""`redis-sink`: the newest value of each key in Redis, exactly once. A tombstone deletes the key.

pip install ./examples/redis_sink
odradek connect create cache connector.class=redis-sink topics=prices redis.url=redis://localhost:6379/0
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import redis

from odradek.connect.interface import BadRecord, RetriableError, Sink, TopicPartition
from odradek.connect.options import Secret, not_empty, option
from odradek.connect.records import Record, TopicPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSinkConfig:
    redis_url: Secret = option("The address: redis://user:password@host:6379/0", importance="HIGH", check=not_empty)
    redis_type: Literal["STRING", "HASH"] = option(
        "STRING: the value as text or JSON. HASH: a field in Redis for each field of the value.", default="STRING"
    )
    key_prefix: str = option("Keys are PREFIX and the record's key; ${topic} is the topic.", default="${topic}:")
    expire_seconds: int = option("Keys expire after this time; 0: never.", default=0)


class RedisSink(Sink[RedisSinkConfig]):
    """Values and offsets are written in one MULTI: after a crash, the sink continues where Redis says."""

    Config: ClassVar[type] = RedisSinkConfig

    def __init__(self, config: RedisSinkConfig) -> None:
        super().__init__(config)
        self._redis = redis.Redis.from_url(config.redis_url.reveal(), decode_responses=True)

    @property
    def _offsets(self) -> str:
        return f"odradek:connect:{self.connector}:offsets"

    def positions(self, committed: Mapping[TopicPartition, int | None]) -> Mapping[TopicPartition, int]:
        stored = {key.rpartition("-"): int(offset) for key, offset in self._call(self._redis.hgetall, self._offsets)}
        found = {(topic, int(index)): offset for (topic, _, index), offset in stored.items()}
        # Redis is ahead of the group after a crash. To write records again, delete the offsets in Redis, too.
        return {place: end for place, end in found.items() if place in committed and (committed[place] or 0) <= end}

    def write(self, records: Sequence[Record]) -> None:
        batch = self._redis.pipeline(transaction=True)
        for record in records:
            key = self.config.key_prefix.replace("${topic}", record.topic) + _text(record.key)
            if record.key is None:
                raise BadRecord(record, "the record has no key, which Redis needs")
            batch.delete(key)
            if record.value is None:
                continue
            if self.config.redis_type == "STRING":
                batch.set(key, _text(record.value))
            elif isinstance(record.value, dict) and record.value:
                batch.hset(key, mapping={name: _text(each) for name, each in record.value.items()})
            else:
                raise BadRecord(record, "redis.type=HASH needs a value with fields")
            if self.config.expire_seconds:
                batch.expire(key, self.config.expire_seconds)
        for record in records:
            if isinstance(record.place, TopicPlace):
                place = record.place
                batch.hset(self._offsets, f"{place.topic}-{place.partition}", str(place.offset + 1))
        self._call(batch.execute)

    def _call(self, ask, *arguments):
        try:
            answer = ask(*arguments)
            return answer.items() if isinstance(answer, dict) else answer
        except (redis.ConnectionError, redis.TimeoutError) as away:
            raise RetriableError(f"Redis does not answer: {away}") from away

    def close(self) -> None:
        self._redis.close()


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
