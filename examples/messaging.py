"""Messaging: one group is a queue, several groups are publish/subscribe.

python examples/messaging.py            # against 127.0.0.1:9092; `odradek up` starts a broker there

Twenty parcels are announced. The two clerks of group `dispatch` share them, so each parcel goes to one clerk: a queue.
Group `billing` receives every parcel too: a subscription. The groups do not delay each other. If a clerk dies, the
others of its group take over its parcels.
"""

from __future__ import annotations

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from odradek.client import Admin, Consumer, Producer

PARCELS = 20


def announce(bootstrap: str) -> None:
    Admin(bootstrap).create_topic("parcels", partitions=4)
    with Producer(bootstrap, key=str, value=str) as producer:
        for number in range(PARCELS):
            producer.send("parcels", f"parcel {number}", key=f"customer-{number % 7}")


def work(bootstrap: str, group: str, done: Counter[str]) -> None:
    """Works until the group has processed all parcels."""
    with Consumer("parcels", bootstrap=bootstrap, group=group, value=str) as consumer:
        while done.total() < PARCELS:
            record = consumer.poll(timeout=0.2)
            if record is not None:
                done[record.value] += 1


def run(bootstrap: str) -> dict[str, Counter[str]]:
    announce(bootstrap)
    done: dict[str, Counter[str]] = {"dispatch": Counter(), "billing": Counter()}
    with ThreadPoolExecutor() as clerks:
        for group in ("dispatch", "dispatch", "billing"):
            clerks.submit(work, bootstrap, group, done[group])
    return done


if __name__ == "__main__":
    for group, parcels in run(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092").items():
        print(f"{group}: {len(parcels)} parcels, none twice" if max(parcels.values()) == 1 else f"{group}: {parcels}")
