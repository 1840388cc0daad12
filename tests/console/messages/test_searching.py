"""Searching a real topic: order, limits, continuation, transactions, compression, and reading after an error."""

from __future__ import annotations

import itertools
import json
import random
import tracemalloc

import pytest
from confluent_kafka import Producer

from odradek.client.addresses import Address, parse_addresses
from odradek.client.admin import Admin
from odradek.console.decoding.choosing import chosen
from odradek.console.filters import compiled, needles, parsed
from odradek.console.messages import searching
from odradek.console.messages.reading import BatchGroup, CannotRead, Reader
from odradek.console.messages.searching import Progress, Range, Search, Wanted
from odradek.console.messages.seen import Decoders
from odradek.protocol.batch import encode_batch, iter_batches
from odradek.protocol.compression import Codec
from odradek.protocol.records import Record
from odradek.testing import Embedded

PARTITIONS = 3
RECORDS = 3_000
NAMES = itertools.count()


@pytest.fixture(scope="module")
def topic(broker: Embedded) -> str:
    """Records with times that are not in the order of their offsets, in many batches of several codecs."""
    name = f"searched-{next(NAMES)}"
    Admin(broker.bootstrap_servers).create_topic(name, PARTITIONS)
    rng = random.Random(7)
    for codec, part in zip(("none", "gzip", "lz4", "zstd", "snappy"), range(5), strict=True):
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "batch.size": 4000}
        )
        for number in range(part, RECORDS, 5):
            value = json.dumps({"n": number, "city": rng.choice(["Oslo", "Bonn"]), "pad": "x" * rng.randrange(80)})
            time_ms = 1_795_000_000_000 + number * 10 + rng.randrange(200)
            producer.produce(
                name, value, str(number), number % PARTITIONS, timestamp=time_ms, headers={"n": f"{number}"}
            )
        producer.flush()
    return name


def search(
    broker: Embedded, topic: str, text: str | None, *, limit: int, newest: bool, ranges: list[Range] | None = None,
    leaders: dict[int, Address] | None = None, committed: bool = True,
) -> tuple[list[list[tuple[int, int, int]]], Search]:  # fmt: skip
    decoders = Decoders(chosen("auto", None), chosen("auto", None))
    node = None if text is None else parsed(text)
    wanted = Wanted(
        limit=limit,
        newest_first=newest,
        decoders=decoders,
        show=lambda seen: int(seen.key or -1),
        matches=None if node is None else compiled(node),
        needles=None if node is None else needles(node, decoders.textual),
    )
    if ranges is None:
        admin = Admin(broker.bootstrap_servers)
        starts, ends = admin.start_offsets(topic), admin.end_offsets(topic)
        ranges = [Range(partition, starts[partition], ends[partition]) for partition in starts]
    if leaders is None:
        leaders = dict.fromkeys(range(PARTITIONS), parse_addresses(broker.bootstrap_servers)[0])
    with Reader(broker.bootstrap_servers, topic, leaders, lambda: None, read_committed=committed) as reader:
        made = Search(reader, ranges, wanted, check=lambda: None)
        return [[match[1:] for match in found] for found in made.rounds()], made


def flat(rounds: list[list[tuple[int, int, int]]]) -> list[tuple[int, int, int]]:
    return [match for found in rounds for match in found]


@pytest.mark.parametrize("newest", [True, False])
def test_pages_show_every_record_once_in_the_order_of_offsets(broker: Embedded, topic: str, newest: bool):
    ranges, shown = None, []
    while ranges is None or ranges:
        rounds, made = search(broker, topic, None, limit=700, newest=newest, ranges=ranges)
        assert len(flat(rounds)) <= 700
        shown += flat(rounds)
        ranges = list(made.left.values())
    assert sorted(number for _, _, number in shown) == list(range(RECORDS))
    for partition in range(PARTITIONS):
        offsets = [offset for where, offset, _ in shown if where == partition]
        assert offsets == sorted(offsets, reverse=newest)


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("text", [None, "value.n >= 0"])
def test_what_a_round_keeps_is_bounded_and_changes_nothing_that_is_shown(
    broker: Embedded, topic: str, monkeypatch: pytest.MonkeyPatch, newest: bool, text: str | None
):
    expected = flat(search(broker, topic, text, limit=500, newest=newest)[0])
    each = 20
    monkeypatch.setattr(searching, "ROUND_BYTES", PARTITIONS * each * searching.KEPT_BYTES)
    kept: list[int] = []
    merge = Search._merged

    def merged(self: Search, windows, missing: int):
        kept.append(max(len(window.found) for window in windows))
        return merge(self, windows, missing)

    monkeypatch.setattr(Search, "_merged", merged)
    rounds, made = search(broker, topic, text, limit=500, newest=newest)
    assert 1 <= max(kept) <= each
    assert len(rounds) > 5
    assert len(set(flat(rounds))) == 500
    if text is None:
        assert flat(rounds) == expected
    rest = flat(search(broker, topic, text, limit=RECORDS, newest=newest, ranges=list(made.left.values()))[0])
    assert sorted(flat(rounds) + rest) == sorted(flat(search(broker, topic, text, limit=RECORDS, newest=newest)[0]))


def test_a_group_keeps_no_decompressed_bytes():
    value = bytes(1 << 20)
    data = memoryview(encode_batch([Record(b"k", value, (), 0, 0)], codec=Codec.GZIP))
    group = BatchGroup(next(iter_batches(data)))
    tracemalloc.start()
    try:
        assert group.has_any([value[:100]])
        assert not group.has_any([b"nowhere"])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < len(value) // 2


def test_newest_records_of_all_partitions_come_first(broker: Embedded, topic: str):
    rounds, _ = search(broker, topic, None, limit=30, newest=True)
    assert min(number for _, _, number in flat(rounds)) > RECORDS - 200
    rounds, _ = search(broker, topic, None, limit=30, newest=False)
    assert max(number for _, _, number in flat(rounds)) < 200


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('key == "1234"', lambda n: n == 1234),
        ('value contains "\\"n\\": 77,"', lambda n: n == 77),
        ("value.n >= 2990", lambda n: n >= 2990),
        ('header["n"] == "5" or header["n"] == "2999"', lambda n: n in (5, 2999)),
        ("partition == 1 and value.n < 10", lambda n: n % PARTITIONS == 1 and n < 10),
        ('value contains "nowhere"', lambda n: False),
    ],
)
def test_filters_find_all_matches(broker: Embedded, topic: str, newest: bool, text: str, expected):
    rounds, made = search(broker, topic, text, limit=1000, newest=newest)
    assert sorted(number for _, _, number in flat(rounds)) == list(filter(expected, range(RECORDS)))
    assert made.progress.records == RECORDS
    assert made.progress.share == 1.0
    assert not made.left


def test_range_within_batches_is_read_exactly(broker: Embedded, topic: str):
    for start, end in ((1, 2), (17, 18), (100, 140), (331, 777)):
        rounds, made = search(broker, topic, "offset >= 0", limit=1000, newest=False, ranges=[Range(1, start, end)])
        assert [offset for _, offset, _ in flat(rounds)] == list(range(start, end))
        assert made.progress.records == end - start


def test_search_stops_at_its_limit_and_continues_without_gaps(broker: Embedded, topic: str):
    ranges, shown, steps = None, [], 0
    while ranges is None or ranges:
        rounds, made = search(broker, topic, 'value.city == "Oslo"', limit=100, newest=True, ranges=ranges)
        shown += flat(rounds)
        ranges = list(made.left.values())
        steps += 1
    oslo, _ = search(broker, topic, 'value.city == "Oslo"', limit=RECORDS, newest=False)
    assert steps > 10
    assert sorted(shown) == sorted(flat(oslo))


def test_other_readers_return_the_same(broker: Embedded, topic: str):
    """Without a leader's address, and with an address that refuses, librdkafka reads."""
    expected, _ = search(broker, topic, "value.n > 2500", limit=1000, newest=False)
    for leaders in (
        {},
        dict.fromkeys(range(PARTITIONS), Address("127.0.0.1", 1)),
        dict.fromkeys(range(PARTITIONS), Address("a..b", 9092)),
    ):
        found, made = search(broker, topic, "value.n > 2500", limit=1000, newest=False, leaders=leaders)
        assert sorted(flat(found)) == sorted(flat(expected))
        assert made.progress.records == RECORDS


def test_reading_continues_with_librdkafka_after_an_error_of_the_leader(broker: Embedded, topic: str):
    broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", times=1)
    rounds, _ = search(broker, topic, None, limit=RECORDS, newest=False)
    assert sorted(number for _, _, number in flat(rounds)) == list(range(RECORDS))


def test_aborted_and_open_transactions_are_left_out(broker: Embedded):
    name = f"transactions-{next(NAMES)}"
    Admin(broker.bootstrap_servers).create_topic(name, 1)
    producers = []
    for number, ending in enumerate(("commit", "abort", "commit", "open")):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"{name}-{number}"})
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(name, b"v", str(number))
        producer.flush()
        if ending == "commit":
            producer.commit_transaction()
        elif ending == "abort":
            producer.abort_transaction()
        producers.append(producer)
    ranges = [Range(0, 0, Admin(broker.bootstrap_servers).end_offsets(name)[0])]
    rounds, _ = search(broker, name, None, limit=10, newest=False, ranges=ranges)
    assert [number for _, _, number in flat(rounds)] == [0, 2]
    rounds, _ = search(broker, name, None, limit=10, newest=False, ranges=ranges, committed=False)
    assert [number for _, _, number in flat(rounds)] == [0, 1, 2, 3]
    producers[-1].abort_transaction()


def test_offsets_that_do_not_exist_are_an_error_with_the_place(broker: Embedded, topic: str):
    with pytest.raises(CannotRead, match=f"{topic}-0 at offset 999999"):
        search(broker, topic, None, limit=10, newest=False, ranges=[Range(0, 999_999, 1_000_010)])


def test_check_stops_a_search(broker: Embedded, topic: str):
    class Enough(Exception):
        pass

    checks = itertools.count()

    def check() -> None:
        if next(checks) == 5:
            raise Enough

    decoders = Decoders(chosen("auto", None), chosen("auto", None))
    wanted = Wanted(limit=RECORDS, newest_first=False, decoders=decoders, show=lambda seen: 0)
    leaders = dict.fromkeys(range(PARTITIONS), parse_addresses(broker.bootstrap_servers)[0])
    with Reader(broker.bootstrap_servers, topic, leaders, check) as reader:
        made = Search(reader, [Range(0, 0, RECORDS // PARTITIONS)], wanted, check=check)
        with pytest.raises(Enough):
            list(made.rounds())


def test_progress_is_reported_while_a_search_runs(broker: Embedded, topic: str):
    clock = itertools.count()
    reports: list[Progress] = []
    decoders = Decoders(chosen("auto", None), chosen("auto", None))
    wanted = Wanted(limit=10, newest_first=False, decoders=decoders, show=lambda seen: 0, matches=lambda seen: False)
    leaders = dict.fromkeys(range(PARTITIONS), parse_addresses(broker.bootstrap_servers)[0])
    with Reader(broker.bootstrap_servers, topic, leaders, lambda: None) as reader:
        ranges = [Range(partition, 0, RECORDS // PARTITIONS) for partition in range(PARTITIONS)]
        made = Search(
            reader, ranges, wanted, check=lambda: None, report=reports.append, now_s=lambda: float(next(clock))
        )
        list(made.rounds())
    assert len(reports) >= PARTITIONS
    assert [each.share for each in reports] == sorted(each.share for each in reports)
    assert (reports[-1].share, reports[-1].records) == (1.0, RECORDS)
