"""The trucks' records at any rate: encoded into record batches once, and given their event times when they are sent.

    python bench/trucking_load.py PORT WARM.load MAIN.load      sends WARM until "go" comes on standard input, then MAIN

The demo's fleet makes the records, one position and one speed a second from each truck. A higher rate is more trucks.
The event times inside the encoded batches count from 0. Sending overwrites their 24 characters, all of a batch at once.
"""

from __future__ import annotations

import json
import pickle
import struct
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from crc32c import crc32c
from native import OUT
from wire import Client, uvarint

from odradek.demo.trucking import topics
from odradek.demo.trucking.fleet import Fleet, Record, iso

TICK_MS = 20
ISO_BEGIN = len('{"eventTime":"')
ISO_CHARS = len("2026-01-01T00:00:00.000Z")
EVENTS_PER_TRUCK_S = 2  # a position and a speed
WARM_SEQUENCE = 1_000_000_000  # so that the warm-up and the measurement have different correlation ids
AFTER_GO_MS = 200
LATE_MS = 400  # speeds may be measured this long before or after their tick


@dataclass(slots=True)
class Batch:
    topic: str
    partition: int
    count: int
    records: bytes
    times: np.ndarray  # of the records whose text is overwritten, in ms since the start
    places: np.ndarray  # where their text begins
    newest: int


@dataclass(slots=True)
class Load:
    """The records of a fleet, by tick."""

    ticks: list[tuple[int, list[Batch]]] = field(default_factory=list)  # due in ms since the start
    positions: list[tuple[int, int]] = field(
        default_factory=list
    )  # driver and time of each position that can be parsed
    events: int = 0


def load_of(events_per_s: int, seconds: int, *, warm: bool) -> Path:
    """Created once and kept in bench/out."""
    file = OUT / "loads" / f"{'warm' if warm else 'main'}-{events_per_s}-{seconds}.load"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        print(f"encoding {events_per_s * seconds:,} events", flush=True)
        fresh = file.with_suffix(".new")
        fresh.write_bytes(pickle.dumps(encoded(records_of(events_per_s, seconds, warm=warm))))
        fresh.rename(file)
    return file


def read(file: Path) -> Load:
    loaded: Load = pickle.loads(file.read_bytes())  # written by this benchmark
    return loaded


def records_of(events_per_s: int, seconds: int, *, warm: bool) -> list[Record]:
    fleet = Fleet(seed=2 if warm else 1, start_ms=0, trucks=max(1, events_per_s // EVENTS_PER_TRUCK_S))
    if warm:
        fleet._sequence = WARM_SEQUENCE  # noqa: SLF001
    return fleet.step(seconds * 1000)


def encoded(records: list[Record]) -> Load:
    load = Load()
    ticks: defaultdict[int, defaultdict[tuple[str, int], list[Record]]] = defaultdict(lambda: defaultdict(list))
    for due, record in with_due(records):
        ticks[due // TICK_MS][record.topic, partition_of(record.key)].append(record)
        load.events += 1
        if record.topic == topics.POSITIONS and record.value.endswith(b"}"):
            load.positions.append((int(record.key), record.time_ms))
    for tick, batches in sorted(ticks.items()):
        base = tick * TICK_MS
        load.ticks.append((base + TICK_MS, [_batch(*where, base, of) for where, of in batches.items()]))
    return load


def with_due(records: list[Record]) -> Iterator[tuple[int, Record]]:
    """Positions and speeds, and when each is sent: a speed is sent with its position, whatever its own time is.

    Changes of drivers are left out: timing would decide which events join the old row, but results must be equal.
    """
    due = 0
    for record in records:
        if record.topic != topics.DRIVERS:
            due = record.time_ms if record.topic == topics.POSITIONS else due
            yield due, record


def drivers_of(events_per_s: int) -> list[Record]:
    """The initial table of drivers of the fleet at this rate."""
    return [record for record in records_of(events_per_s, 0, warm=False) if record.topic == topics.DRIVERS]


def _batch(topic: str, partition: int, base: int, records: list[Record]) -> Batch:
    out = bytearray()
    times, places = [], []
    for offset, record in enumerate(records):
        head = b"\0" + zigzag(record.time_ms - base) + zigzag(offset) + zigzag(len(record.key)) + record.key
        head += zigzag(len(record.value))
        out += zigzag(len(head) + len(record.value) + 1) + head
        if len(record.value) >= ISO_BEGIN + ISO_CHARS:  # a malformed record may be truncated before its time
            times.append(record.time_ms)
            places.append(len(out) + ISO_BEGIN)
        out += record.value + b"\0"
    newest = max(record.time_ms for record in records)
    return Batch(topic, partition, len(records), bytes(out), np.array(times), np.array(places), newest)


def zigzag(number: int) -> bytes:
    return uvarint(number << 1 ^ number >> 63)


def stamped(batch: Batch, base: int, start_ms: int, texts: np.ndarray) -> bytes:
    """The batch on the wire. `texts`: the time of day of every ms from `base` - LATE_MS on, as characters."""
    body = np.frombuffer(batch.records, dtype=np.uint8).copy()
    if len(batch.times):
        body[batch.places[:, None] + np.arange(ISO_CHARS)] = texts[batch.times - base + LATE_MS]
    first, newest = start_ms + base, start_ms + batch.newest
    covered = struct.pack(">hiqqqhii", 0, batch.count - 1, first, newest, -1, -1, -1, batch.count) + body.tobytes()
    return struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, crc32c(covered)) + covered


def texts_from(first_ms: int) -> np.ndarray:
    second, ms = divmod(first_ms, 1000)
    seconds = np.concatenate([_texts_of(second), _texts_of(second + 1)])
    return seconds[ms : ms + 2 * LATE_MS + TICK_MS]


@lru_cache(maxsize=4)
def _texts_of(second: int) -> np.ndarray:
    """The thousand moments of a second."""
    texts = "".join(iso(second * 1000 + ms) for ms in range(1000))
    return np.frombuffer(texts.encode(), dtype=np.uint8).reshape(-1, ISO_CHARS)


def partition_of(key: bytes) -> int:
    """The default partitioner of Java's producer and Quix Streams, so that repartitioned records match these."""
    if key not in _PARTITIONS:
        _PARTITIONS[key] = (murmur2(key) & 0x7FFFFFFF) % topics.PARTITIONS
    return _PARTITIONS[key]


_PARTITIONS: dict[bytes, int] = {}


def murmur2(data: bytes) -> int:
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        k = word * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


# --- the process that sends


def send_until(client: Client, load: Load, start_ms: int, stop: threading.Event) -> tuple[int, float]:
    """The number of sent ticks, and the delay in seconds of the tick that was most late."""
    late_s = 0.0
    for number, (due, batches) in enumerate(load.ticks):
        wait_s = (start_ms + due) / 1000 - time.time()
        if wait_s > 0 and stop.wait(wait_s):
            return number, late_s
        late_s = max(late_s, -wait_s)
        base = due - TICK_MS
        texts = texts_from(start_ms + base - LATE_MS)
        for topic in (topics.POSITIONS, topics.SPEEDS):
            ready = [(one.partition, stamped(one, base, start_ms, texts)) for one in batches if one.topic == topic]
            if ready:
                client.produce(topic, ready)
        if stop.is_set():
            return number + 1, late_s
    return len(load.ticks), late_s


def main() -> None:
    port, warm, load = int(sys.argv[1]), read(Path(sys.argv[2])), read(Path(sys.argv[3]))
    go = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), go.set()), daemon=True).start()
    with Client(port) as client:
        warm_start = int(time.time() * 1000)
        print(json.dumps({"warm_start_ms": warm_start}), flush=True)
        ticks, _ = send_until(client, warm, warm_start, go)
        go.wait()
        start = int(time.time() * 1000) + AFTER_GO_MS
        print(json.dumps({"warm_ticks": ticks, "start_ms": start}), flush=True)
        _, late_s = send_until(client, load, start, threading.Event())
        print(json.dumps({"end_ms": int(time.time() * 1000), "late_s": late_s}), flush=True)


if __name__ == "__main__":
    main()
