"""Commit log: a store that writes every change to a compacted topic first, and recovers from it after a crash.

python examples/commit_log.py           # against 127.0.0.1:9092; `odradek up` starts a broker there

The topic keeps the last value of each key; a tombstone deletes a key. A new instance replays the topic and has the
state of the old instance, up to the last acknowledged change.
"""

from __future__ import annotations

import sys

from odradek.client import JSON, Admin, Consumer, Producer


class Store:
    """A dictionary that survives its process."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        Admin(bootstrap).create_topic(topic, partitions=1, config={"cleanup.policy": "compact"})
        self._topic = topic
        self._producer: Producer[str, object] = Producer(bootstrap, key=str, value=JSON)
        self.values: dict[str, object] = {}
        with Consumer(topic, bootstrap=bootstrap, key=str, value=JSON, stop_at_end=True) as log:
            for change in log:
                self._apply(change.key, change.value)

    def __setitem__(self, key: str, value: object) -> None:
        self._producer.send(self._topic, value, key=key).result()
        self._apply(key, value)

    def __delitem__(self, key: str) -> None:
        self[key] = None

    def _apply(self, key: str, value: object) -> None:
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    def close(self) -> None:
        self._producer.close()


def run(bootstrap: str) -> dict[str, object]:
    store = Store(bootstrap, "settings-log")
    store["theme"] = "dark"
    store["language"] = "cs"
    store["theme"] = "light"
    del store["language"]
    store.close()  # or it crashes

    again = Store(bootstrap, "settings-log")
    again.close()
    return again.values


if __name__ == "__main__":
    print("after a restart:", run(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"))
