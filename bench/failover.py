"""The gap in acknowledgements when a leader ends, as seen by a producer with acks=all and default retries."""

from __future__ import annotations

import itertools
import signal
import threading
import time

from confluent_kafka import Producer
from servers import Server
from wire import Client

BEFORE_S = 1.0
PATIENCE_S = 60.0
PAUSE_S = 0.002
_numbers = itertools.count()


def gap_s(server: Server, how: str) -> float:
    """The longest time between two acknowledgements. Returns when the node is in sync again."""
    with Client(server.port) as client:
        controller = client.active_controller()
    others = [node_id for node_id in server.node_ids if node_id != controller]
    leader = controller if how == "failover-controller" else others[0]
    topic = f"{how}-{next(_numbers)}"
    server.create_topic(topic, replicas=3, brokers=sorted(server.node_ids, key=lambda node_id: node_id != leader))
    load = Load(server.bootstrap, topic)
    try:
        load.await_acknowledged_after(time.monotonic() + BEFORE_S)
        ended_s = time.monotonic()
        server.stop_node(leader, signal.SIGTERM if how == "failover-stop" else signal.SIGKILL)
        load.await_acknowledged_after(time.monotonic())
    finally:
        load.stop()
    server.start_node(leader)
    server.await_in_sync(topic, 1)
    stored = server.end_offset(topic)
    if stored < len(load.acknowledged_s):
        raise RuntimeError(f"{server.name} acknowledged {len(load.acknowledged_s)} records and has {stored}")
    server.delete_topic(topic)
    return max(later - earlier for earlier, later in itertools.pairwise(load.acknowledged_s) if later > ended_s)


class Load:
    """A producer in its own thread, with about 500 records per second."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged_s: list[float] = []
        self._topic = topic
        self._errors: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def await_acknowledged_after(self, moment_s: float) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.acknowledged_s or self.acknowledged_s[-1] <= moment_s:
            if self._errors or time.monotonic() > deadline:
                raise RuntimeError(f"no acknowledgement: {self._errors[:1] or 'none in time'}")
            time.sleep(PAUSE_S)

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        for number in itertools.count():
            if self._ends.is_set():
                break
            self._producer.produce(self._topic, str(number).encode(), on_delivery=self._delivered)
            self._producer.poll(PAUSE_S)
        self._producer.flush(PATIENCE_S)

    def _delivered(self, error: object, _message: object) -> None:
        if error:
            self._errors.append(str(error))
        else:
            self.acknowledged_s.append(time.monotonic())
