"""The answer to where a partition begins or ends, as librdkafka's admin client gives it."""

from __future__ import annotations

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo


def offset_in(answer: ListOffsetsResultInfo) -> int:
    """For a leader that did not answer in time librdkafka may tell an offset that is none, and no error."""
    offset: int = answer.offset
    if offset == OFFSET_INVALID:
        late = KafkaError._TIMED_OUT  # noqa: SLF001 librdkafka names its own codes so
        raise KafkaException(KafkaError(late, "the leader of a partition did not answer in time"))
    return offset
