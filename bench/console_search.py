"""How fast the console searches a topic: a full scan, and the time until a match at a random offset is found.

python bench/console_search.py                     1,000,000 records of 1 KB, 4 partitions
python bench/console_search.py --records 100000 --codec zstd
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from odradek.client.addresses import parse_addresses
from odradek.client.admin import Admin
from odradek.console.decoding.choosing import chosen
from odradek.console.filters import compiled, needles, parsed
from odradek.console.messages.reading import Reader
from odradek.console.messages.searching import Range, Search, Wanted
from odradek.console.messages.seen import Decoders
from support.broker_process import BrokerProcess

TOPIC, PARTITIONS, RECORD_BYTES = "searched", 4, 1000
MARK = "needle-in-the-haystack"
FILTERS = [
    ("text that is nowhere", 'value contains "no-such-text"'),
    ("text of one record", f'value contains "{MARK}"'),
    ("a key", 'key == "777777"'),
    ("a text field", f'value.note == "{MARK}"'),
    ("a number field (decodes every record)", "value.speed > 1000"),
    ("a regular expression (decodes every record)", 'value.note ~ "^no-such"'),
]


def fill(bootstrap: str, records: int, codec: str) -> int:
    """Records of random JSON, one of them with the mark. Returns its number."""
    Admin(bootstrap).create_topic(TOPIC, PARTITIONS, {"segment.bytes": str(256 << 20)})
    rng = random.Random()
    marked = rng.randrange(records)
    letters = string.ascii_lowercase + string.digits
    pads = ["".join(rng.choices(letters, k=RECORD_BYTES)) for _ in range(500)]
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": codec, "batch.size": 1 << 19}
    )
    for number in range(records):
        note = MARK if number == marked else f"note {number}"
        text = json.dumps({"id": number, "speed": number % 200, "note": note, "pad": ""})
        value = f'{text[:-2]}{rng.choice(pads)[: RECORD_BYTES - len(text)]}"}}'
        while True:
            try:
                producer.produce(TOPIC, value, str(number), number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return marked


def scan(bootstrap: str, text: str, *, limit: int) -> tuple[Search[int], int]:
    decoders = Decoders(chosen("auto", None), chosen("auto", None))
    node = parsed(text)
    wanted = Wanted(
        limit=limit,
        newest_first=True,
        decoders=decoders,
        show=lambda seen: int(seen.key or b"-1"),
        matches=compiled(node),
        needles=needles(node, decoders.textual),
    )
    admin = Admin(bootstrap)
    starts, ends = admin.start_offsets(TOPIC), admin.end_offsets(TOPIC)
    leaders = dict.fromkeys(starts, parse_addresses(bootstrap)[0])
    with Reader(bootstrap, TOPIC, leaders, lambda: None) as reader:
        search = Search(reader, [Range(each, starts[each], ends[each]) for each in starts], wanted, check=lambda: None)
        found = [match.shown for matches in search.rounds() for match in matches]
        return search, len(found)


@contextmanager
def console(bootstrap: str) -> Iterator[tuple[str, int]]:
    """A console process: its address and process id."""
    command = [sys.executable, "-m", "odradek.cli", "console", "-b", bootstrap, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            yield line.removeprefix("Console: ").strip().rstrip("/"), process.pid
        finally:
            process.terminate()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


def over_http(bootstrap: str) -> None:
    with console(bootstrap) as (url, pid), httpx.Client(base_url=url, timeout=600) as client:
        deadline_s = time.monotonic() + 60
        while client.get(f"/topics/{TOPIC}/search", params={"limit": "1"}).text.find('"o":') < 0:
            assert time.monotonic() < deadline_s
        for name, text in FILTERS[:2]:
            began_s = time.monotonic()
            told = client.get(f"/topics/{TOPIC}/search", params={"filter": text}).text
            reports = told.count("event: progress")
            print(f"console: {name:37} {time.monotonic() - began_s:>8.2f} s, {reports} reports of progress")
        pages = sorted(_page_s(client) for _ in range(40))
        with client.stream("GET", f"/topics/{TOPIC}/search", params={"filter": FILTERS[4][1]}) as answer:
            lines = answer.iter_lines()  # without a name it would be deleted, which closes the connection
            next(lines)
            busy = sorted(_page_s(client) for _ in range(40))
        print(f"console: page of topics {pages[20] * 1000:.0f} ms, during a search {busy[20] * 1000:.0f} ms (medians)")
        before_s, began_s = cpu_s(pid), time.monotonic()
        while time.monotonic() - began_s < 3:
            time.sleep(0.1)
        print(
            f"console: {cpu_s(pid) - before_s:.2f} s of CPU in the 3 s after it was cancelled, peak {peak_mib(pid)} MiB"
        )


def _page_s(client: httpx.Client) -> float:
    began_s = time.monotonic()
    client.get("/topics").raise_for_status()
    return time.monotonic() - began_s


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--codec", default="none")
    given = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder,
        BrokerProcess(Path(folder) / "data") as broker,
    ):
        began_s = time.monotonic()
        marked = fill(broker.bootstrap, given.records, given.codec)
        print(f"wrote {given.records} records ({given.codec}) in {time.monotonic() - began_s:.1f} s, mark: {marked}")
        print(f"{'filter':46} {'found':>7} {'scanned':>10} {'seconds':>8} {'records/s':>10} {'MiB/s':>7} {'cpu s':>6}")
        for name, text in FILTERS:
            cpu_s = time.process_time()
            search, found = scan(broker.bootstrap, text, limit=given.records if "nowhere" in name else 50)
            done, cpu_s = search.progress, time.process_time() - cpu_s
            rate = done.records / done.seconds
            print(
                f"{name:46} {found:>7} {done.records:>10} {done.seconds:>8.2f} {rate:>10.0f} "
                f"{done.size_bytes / done.seconds / (1 << 20):>7.0f} {cpu_s:>6.2f}"
            )
        began_s = time.monotonic()
        search, found = scan(broker.bootstrap, f'value contains "{MARK}"', limit=1)
        print(f"first match of one: {time.monotonic() - began_s:.2f} s after {search.progress.records} records")
        over_http(broker.bootstrap)
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


if __name__ == "__main__":
    main()
