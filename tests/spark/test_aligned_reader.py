"""Two aligned sources of one application, each with its own reader, on a real broker: their batches end together."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from odradek.client.admin import Admin
from odradek.spark.options import stream_options
from odradek.spark.stream_reader import OdradekStreamReader
from support.topics import Records

BASE_MS = 1_700_000_000_000
LIMIT = ReadMaxRows(20)


def reader(cluster: Admin, topic: str, *topics: str, **options: str) -> OdradekStreamReader:
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    return OdradekStreamReader(
        stream_options(given | {"subscribe": topic, "alignTopics": ",".join((topic, *topics))} | options)
    )


def fill(records: Records, topic: str, *seconds: int, partition: int = 0) -> None:
    for second in seconds:
        records.put(topic, [str(second)], partition=partition, timestamp_ms=BASE_MS + second * 1000)


def steps(source: OdradekStreamReader, offset: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The ends of micro-batches until all records are read."""
    offset = source.initialOffset() if offset is None else offset
    found = []
    while (following := source.latestOffset(json.loads(json.dumps(offset)), LIMIT)) != offset:
        offset = following
        found.append(offset)
    return found


def cut_seconds(offsets: list[dict[str, Any]]) -> list[float | None]:
    return [(offset["@cut"] - BASE_MS) / 1000 if "@cut" in offset else None for offset in offsets]


def stamps(source: OdradekStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[float]:
    batches = [batch for part in source.partitions(start, end) for batch in source.read(part)]
    return [stamp.timestamp() - BASE_MS / 1000 for batch in batches for stamp in batch["timestamp"].to_pylist()]


def test_two_aligned_sources_end_their_batches_at_the_same_times(cluster: Admin, records: Records):
    cluster.create_topic("orders", 2)
    cluster.create_topic("prices", 1)
    fill(records, "orders", *range(30))
    fill(records, "orders", *range(100, 103), partition=1)
    fill(records, "prices", *range(10, 40))

    orders, prices = reader(cluster, "orders", "prices"), reader(cluster, "prices", "orders")
    of_orders, of_prices = steps(orders), steps(prices)

    assert cut_seconds(of_orders) == cut_seconds(of_prices)
    assert of_orders[-1] == {"@others": {"prices": {"0": 30}}, "orders": {"0": 30, "1": 3}}
    assert of_prices[-1] == {"@others": {"orders": {"0": 30, "1": 3}}, "prices": {"0": 30}}
    assert len(of_orders) > 3
    for source, offsets in ((orders, of_orders), (prices, of_prices)):
        begun, read = source.initialOffset(), []
        for end in offsets:
            found = stamps(source, begun, end)
            if "@cut" in end:
                assert all(second < (end["@cut"] - BASE_MS) / 1000 for second in found)
            if "@cut" in begun:
                assert all(second >= (begun["@cut"] - BASE_MS) / 1000 for second in found)
            read += found
            begun = end
        assert len(read) == (33 if source is orders else 30)


def test_quiet_topic_waits_until_the_cut_reaches_its_records(cluster: Admin, records: Records):
    cluster.create_topic("busy", 1)
    cluster.create_topic("quiet", 1)
    fill(records, "busy", *range(50))
    fill(records, "quiet", 45)

    offsets = steps(reader(cluster, "quiet", "busy"))

    assert [offset["quiet"]["0"] for offset in offsets] == [0, 0, 1]
    assert cut_seconds(offsets)[-1] is None


def test_live_records_are_read_unaligned_and_the_next_backlog_is_aligned_again(cluster: Admin, records: Records):
    cluster.create_topic("first", 1)
    cluster.create_topic("second", 1)
    one, two = reader(cluster, "first", "second"), reader(cluster, "second", "first")
    fill(records, "first", 0, 1)
    fill(records, "second", *range(15))
    (live_one,), (live_two,) = steps(one), steps(two)
    assert live_one == {"@others": {"second": {"0": 15}}, "first": {"0": 2}}
    assert live_two == {"@others": {"first": {"0": 2}}, "second": {"0": 15}}

    fill(records, "first", *range(10, 40))
    fill(records, "second", *range(20, 50))

    of_one, of_two = (steps(source, offset) for source, offset in ((one, live_one), (two, live_two)))
    assert cut_seconds(of_one) == cut_seconds(of_two)
    assert of_one[0]["first"]["0"] > 2
    assert (of_one[-1]["first"], of_two[-1]["second"]) == ({"0": 32}, {"0": 45})


def test_available_now_reads_only_records_that_existed_at_its_start(cluster: Admin, records: Records):
    cluster.create_topic("now-a", 1)
    cluster.create_topic("now-b", 1)
    fill(records, "now-a", *range(50))
    fill(records, "now-b", *range(25, 75))
    source = reader(cluster, "now-a", "now-b")
    source.prepareForTriggerAvailableNow()

    begun = source.latestOffset(source.initialOffset(), LIMIT)
    fill(records, "now-a", *range(80, 200))
    offsets = steps(source, begun)

    assert offsets[-1] == {"@others": {"now-b": {"0": 50}}, "now-a": {"0": 50}}
    # The limit of the engine wins: Trigger.Once asks for everything.
    assert source.latestOffset(begun, ReadAllAvailable()) == offsets[-1]


def test_unordered_or_future_timestamps_do_not_stop_an_aligned_query(cluster: Admin, records: Records):
    far = {"message.timestamp.after.max.ms": str((1 << 63) - 1)}
    cluster.create_topic("mixed-up", 2, far)
    cluster.create_topic("calm", 1)
    fill(records, "mixed-up", 5, 2_000_000_000, *range(60))
    fill(records, "mixed-up", *[7] * 30, partition=1)
    fill(records, "calm", *range(30))

    for topic, other, end in (("mixed-up", "calm", {"0": 62, "1": 30}), ("calm", "mixed-up", {"0": 30})):
        offsets = steps(reader(cluster, topic, other))
        assert offsets[-1][topic] == end
        times = [offset["@cut"] for offset in offsets if "@cut" in offset]
        assert times == sorted(set(times))
        ends = [offset[topic] for offset in offsets]
        assert all(left[place] <= right[place] for left, right in pairwise(ends) for place in left)


def test_records_older_than_the_last_cut_are_still_limited(cluster: Admin, records: Records):
    """Records that are older than the last cut arrive late, but the batch limit still applies to them."""
    cluster.create_topic("late", 1)
    fill(records, "late", *range(50))

    begun = {"@cut": BASE_MS + 1_000_000_000, "late": {"0": 0}}
    ends = [offset["late"]["0"] for offset in steps(reader(cluster, "late"), begun)]

    assert ends[-1] == 50
    assert all(right - left <= 20 for left, right in zip([0, *ends], ends, strict=False))


def test_alignment_accepts_new_partitions_and_missing_topics(cluster: Admin, records: Records):
    cluster.create_topic("grown", 1)
    fill(records, "grown", *range(30))
    source = reader(cluster, "grown", "never-created")
    begun = source.latestOffset(source.initialOffset(), LIMIT)
    assert begun["@cut"]

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_partitions([NewPartitions("grown", 2)])["grown"].result()
    fill(Records(cluster.bootstrap), "grown", *range(20, 50), partition=1)

    offsets = steps(source, begun)
    assert offsets[-1]["grown"] == {"0": 30, "1": 30}
    assert (offsets[0]["grown"], len(offsets)) == ({"0": 30, "1": 10}, 2)


def test_alignment_accepts_gaps_in_offsets(cluster: Admin, records: Records):
    cluster.create_topic("gaps", 1)
    cluster.create_topic("whole", 1)
    fill(records, "gaps", *range(60))
    records.delete_before("gaps", 35)
    fill(records, "whole", *range(40, 80))

    gaps = reader(cluster, "gaps", "whole")
    assert gaps.initialOffset() == {"@others": {"whole": {"0": 0}}, "gaps": {"0": 35}}
    offsets = steps(gaps)
    assert cut_seconds(offsets) == cut_seconds(steps(reader(cluster, "whole", "gaps")))
    read = []
    for begun, end in zip([gaps.initialOffset(), *offsets], offsets, strict=False):
        read += stamps(gaps, begun, end)
    assert read == list(range(35, 60))


def test_starting_timestamp_is_the_first_cut(cluster: Admin, records: Records):
    cluster.create_topic("since-a", 1)
    cluster.create_topic("since-b", 1)
    fill(records, "since-a", *range(60))
    fill(records, "since-b", *range(60))
    since = {"startingTimestamp": str(BASE_MS + 10_000)}

    a, b = reader(cluster, "since-a", "since-b", **since), reader(cluster, "since-b", "since-a", **since)

    assert a.initialOffset() == {"@cut": BASE_MS + 10_000, "since-a": {"0": 10}}
    assert cut_seconds(steps(a)) == cut_seconds(steps(b))


def test_group_commits_contain_offsets_without_marks(cluster: Admin, records: Records):
    cluster.create_topic("told-a", 1)
    cluster.create_topic("told-b", 1)
    fill(records, "told-a", *range(30))
    fill(records, "told-b", *range(30))
    source = reader(cluster, "told-a", "told-b", **{"kafka.group.id": "told"})

    begun = source.latestOffset(source.initialOffset(), LIMIT)
    assert begun["@cut"]
    source.latestOffset(begun, LIMIT)
    source._progress.flush(60)
    assert cluster.committed("told") == {("told-a", 0): begun["told-a"]["0"]}


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_topics_of_a_pattern_are_aligned(cluster: Admin, records: Records, start: str):
    cluster.create_topic(f"some-{start}", 1)
    cluster.create_topic(f"other-{start}", 1)
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "maxOffsetsPerTrigger": "20", "startingOffsets": start}
    source = OdradekStreamReader(
        stream_options(given | {"subscribePattern": f"^some-{start}", "alignTopics": f"other-{start}"})
    )
    begun = source.initialOffset()
    fill(records, f"some-{start}", *range(30))
    fill(records, f"other-{start}", *range(30, 60))

    offsets = steps(source, begun if start == "earliest" else source.latestOffset(begun, LIMIT))
    assert offsets[0]["@cut"]
    assert offsets[-1] == {"@others": {f"other-{start}": {"0": 30}}, f"some-{start}": {"0": 30}}
