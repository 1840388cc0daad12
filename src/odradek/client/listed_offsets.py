"""The answer of librdkafka's admin client to ListOffsets."""

from __future__ import annotations

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo


def offset_in(answer: ListOffsetsResultInfo) -> int:
    """Raises a timeout if the leader did not answer: librdkafka may then return an invalid offset without an error."""
    offset: int = answer.offset
    if offset == OFFSET_INVALID:
        late = KafkaError._TIMED_OUT  # noqa: SLF001 librdkafka names its own codes so
        raise KafkaException(KafkaError(late, "the leader of a partition did not answer in time"))
    return offset
