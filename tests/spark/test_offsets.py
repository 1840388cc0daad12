from __future__ import annotations

import json

import pytest

from odradek.spark.errors import RefusedOption
from odradek.spark.offsets import TopicPartition, from_json, parse_partitions, to_json
from odradek.spark.stream_offset import StreamOffset


def test_offset_json_has_the_kafka_connector_format_and_sorted_keys():
    """Spark compares offsets as text: a different order of keys would be a new offset and cause an empty batch."""
    offsets = {TopicPartition("b", 10): 3, TopicPartition("b", 9): 2, TopicPartition("a", 0): 1}

    text = json.dumps(to_json(offsets))

    assert text == '{"a": {"0": 1}, "b": {"9": 2, "10": 3}}'
    assert json.dumps(to_json(dict(reversed(offsets.items())))) == text
    assert from_json(json.loads(text)) == offsets


def test_empty_offsets_are_an_empty_json_object():
    assert to_json({}) == {}
    assert from_json({}) == {}


@pytest.mark.parametrize("text", ['{"a":0}', '{"a":["0"]}', "a", "[]", '{"a":[true]}', "{}"])
def test_malformed_partitions_are_refused(text):
    with pytest.raises(RefusedOption, match="assign"):
        parse_partitions("assign", text)


def test_marks_are_kept_in_the_json_and_left_out_of_offsets():
    given = {"@cut": 17, "@others": {"b": {"0": 2}}, "a": {"0": 1}}

    offset = StreamOffset.of_json(given)

    assert offset == StreamOffset(offsets={TopicPartition("a", 0): 1}, cut_ms=17, others={TopicPartition("b", 0): 2})
    assert json.dumps(offset.to_json()) == json.dumps(given)
    assert from_json(given) == offset.offsets
    assert StreamOffset.of_json({"a": {"0": 1}}).to_json() == {"a": {"0": 1}}
