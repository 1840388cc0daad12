"""What the observed processes run, besides nodes."""

from __future__ import annotations

import sys

MONITOR = """
[http]
address = "{address}"
[cluster.local]
servers = {servers}
offset-refresh = 1
topic-refresh = 2
[cluster.dead]
servers = ["127.0.0.1:{nowhere}"]
offset-refresh = 1
[lag]
partition-metrics = true
"""
CLIENTS = """
import sys, threading, time
from odradek.client import Consumer, Producer, SendFailed, export_metrics

bootstrap, port = sys.argv[1], int(sys.argv[2])
export_metrics(port=port)
producer = Producer(bootstrap, statistics_interval_ms=1000, message_timeout_ms=3000, linger_ms=5)

def produce(topic, every_s):
    while True:
        producer.send(topic, b"x" * 200).add_done_callback(lambda done: done.exception())
        time.sleep(every_s)

def consume(group, topic, pause_s):
    with Consumer(topic, bootstrap=bootstrap, group=group, auto_commit=False, statistics_interval_ms=1000) as consumer:
        for record in consumer:
            consumer.commit(record)
            time.sleep(pause_s)

for topic in ("orders", "fragile", "strict"):
    threading.Thread(target=produce, args=(topic, 0.02), daemon=True).start()
threading.Thread(target=consume, args=("quick", "orders", 0), daemon=True).start()
threading.Thread(target=consume, args=("slow", "orders", 1), daemon=True).start()
threading.Thread(target=consume, args=("stopping", "orders", 0.1), daemon=True).start()
print("running", flush=True)
for line in sys.stdin:
    pass
"""
STREAMS = """
import time
from odradek.streams import App, F

app = App("slow", every="1 second")

def keep(row):
    time.sleep(0.4)

events = app.stream("events", schema="n int", dlq="events.dead")
events.foreach(keep)
events.group_by("n").agg(count=F.count("*")).materialize("counts")
"""

CONNECT = [sys.executable, "-m", "support.connect_process"]
