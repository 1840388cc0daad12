"""Log aggregation: the lines of many processes in one feed, through Python's own logging.

python examples/log_aggregation.py      # against 127.0.0.1:9092; `odradek up` starts a broker there

The handler blocks the program only while its queue is full. If a record cannot be sent, only this log line is lost.
Follow the feed with `odradek consume logs -f '%k %v\\n'`.
"""

from __future__ import annotations

import logging
import os
import sys

from odradek.client import JSON, Admin, Consumer, Producer


class TopicHandler(logging.Handler):
    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._topic = topic
        self._producer: Producer[str, object] = Producer(bootstrap, key=str, value=JSON, compression_type="lz4")

    def emit(self, record: logging.LogRecord) -> None:
        line = {"level": record.levelname, "logger": record.name, "text": self.format(record), "pid": os.getpid()}
        try:
            self._producer.send(self._topic, line, key=record.name, timestamp=int(record.created * 1000))
        except Exception:  # noqa: BLE001, too large, or the producer is closed
            self.handleError(record)

    def close(self) -> None:
        self._producer.close()
        super().close()


def run(bootstrap: str) -> list[str]:
    Admin(bootstrap).create_topic("logs", partitions=1, config={"retention.bytes": "1073741824"})
    handler = TopicHandler(bootstrap, "logs")
    shop = logging.getLogger("shop")
    shop.setLevel(logging.INFO)
    shop.propagate = False
    shop.addHandler(handler)
    shop.info("open")
    shop.getChild("till").warning("drawer is %s", "stuck")
    shop.removeHandler(handler)
    handler.close()
    with Consumer("logs", bootstrap=bootstrap, value=JSON, stop_at_end=True) as consumer:
        return [f"{record.value['level']} {record.value['logger']}: {record.value['text']}" for record in consumer]


if __name__ == "__main__":
    print("\n".join(run(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")))
