"""`make console-screenshots`: a cluster with traffic, and every page of its console in docs/console/, light and dark.

One group has lost its consumers and one is too slow, so that pages show what problems look like.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from odradek.client.admin import Admin  # noqa: E402
from odradek.console.pages.streams import REASON  # noqa: E402
from odradek.console.service import running  # noqa: E402
from odradek.console.settings import ConsoleSettings  # noqa: E402
from odradek.streams.run.announcing import forget  # noqa: E402
from support.chromium import installed  # noqa: E402 (they live with the tests)
from support.console_traffic import Reader, Traffic  # noqa: E402
from support.example_applications import LETTERS, announce_examples  # noqa: E402
from support.example_connectors import example_connectors  # noqa: E402
from support.hanging import WITHOUT_VERIFICATION, hang  # noqa: E402

OUT = ROOT / "docs" / "console"
WIDTH, HEIGHT, PHONE = 1360, 860, (390, 844)
# Until groups have a history.
FAILOVER_S = 12.0
CONNECTORS_S = float(os.environ.get("CONNECTORS_S", "60"))
# Takes only these, such as ONLY=brokers,overview-phone.
ONLY = frozenset(filter(None, os.environ.get("ONLY", "").split(",")))
HISTORY_S = float(os.environ.get("HISTORY_S", "200"))
RATES = {"orders": 20, "payments": 8, "clicks": 60, "shipments.v1": 4, "inventory-changes": 6, "fraud-scores": 2}
READERS = (
    Reader(group="billing", topics=["orders", "payments"]),
    Reader(group="billing", topics=["orders", "payments"]),
    Reader(group="dashboards", topics=["clicks"]),
    Reader(group="shipping", topics=["shipments.v1", "orders"]),
    Reader(group="search-index", topics=["clicks"], pause_s=1.0),
    Reader(group="audit-export", topics=["orders"], rounds=60),
    Reader(group="analytics.nightly-warehouse-export.v2", topics=["inventory-changes"]),
)
PAGES = {
    "overview": "/",
    "events": "/recent",
    "brokers": "/brokers",
    "broker": "/brokers/1",
    "broker-configs": "/brokers/1?tab=configs&q=retention&edit=log.retention.ms",
    "broker-metrics": "/brokers/1?tab=metrics",
    "broker-mbeans": "/brokers/1?tab=mbeans&mbean=kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec",
    "quorum": "/quorum",
    "topics": "/topics",
    "topic-create": "/create-topic",
    "topic-messages": "/topics/orders",
    "topic-search": "/topics/orders?filter=value.amount+%3E+90+and+key+contains+%22customer-1%22"
    "&columns=value.amount&limit=20",
    "topic-message": "/topics/orders/messages/0/5",
    "topic-manage": "/topics/orders/manage",
    "topic-partitions": "/topics/orders/partitions",
    "topic-consumers": "/topics/orders/consumers",
    "topic-configs": "/topics/orders/configuration",
    "topic-produce": "/topics/orders/produce",
    "groups": "/groups",
    "group": "/groups/search-index",
    "group-members": "/groups/billing?tab=members",
    "group-reset": "/groups/audit-export?tab=reset&to=earliest",
}
# With a console of their own: one connector has failed, and would be the verdict of all other pages.
CONNECT_PAGES = {
    "connect": "/connect",
    "connector": "/connect/{service}/warehouse-payments",
    "connector-letters": "/connect/{service}/orders-archive?tab=letters",
    "connector-create": "/create-connector?service={service}",
    "connector-edit": "/edit-connector?service={service}&name=warehouse-payments",
    "connector-manage": "/connect/{service}/web-clicks?tab=manage",
}
# Of applications that only announce themselves: one has failed, and would be the verdict of the pages above, too.
STREAMS_PAGES = {
    "streams": "/streams",
    "application": "/streams/fleet",
    "application-failed": "/streams/order-totals",
    "application-letters": f"/topics/{LETTERS}?{urlencode({'columns': REASON})}",
}
# After some producers have begun transactions, and one has left its own behind.
OF_TRANSACTIONS = {
    "transactions": "/transactions",
    "transaction": "/transactions/id/enricher-orders-1?abort=1",
    "transaction-hanging": "/transactions/at/clicks/0/{offset}",
}
# After a broker was killed.
OF_FAILURE = {"overview-broker-down": "/", "alerts": "/alerts", "alert": "/alerts/FencedBrokers"}
# Alerts fire sooner than in real life, so that taking the screenshots does not take minutes.
TIME_FACTOR, ALERTS_S = 0.1, 30.0
# Until the console has read the announcements, and has a short history of rates.
APPLICATIONS_S = 15.0
ON_PHONE = ("overview", "topic-messages", "groups", "group")


def main() -> None:
    program = installed()
    if program is None:
        sys.exit("no Chromium here: sh tests/support/install-chromium.sh")
    OUT.mkdir(exist_ok=True)
    port = int(os.environ.get("PORT", "17192"))
    bootstrap = ",".join(f"127.0.0.1:{port + number}" for number in range(3))
    with (
        tempfile.TemporaryDirectory() as directory,
        _cluster(Path(directory), port),
        running(ConsoleSettings(bootstrap=bootstrap, port=0, alert_time_factor=TIME_FACTOR)) as (_, server),
        Traffic(bootstrap, RATES, READERS),
        sync_playwright() as play,
    ):
        print(f"collecting a history for {HISTORY_S:.0f} s at {server.url}", flush=True)  # noqa: T201
        time.sleep(HISTORY_S)
        browser = play.chromium.launch(executable_path=shutil.which(program), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        _take(page, server.url, PAGES)
        page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        _take(page, server.url, {f"{name}-phone": PAGES[name] for name in ON_PHONE})
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        if _wanted(CONNECT_PAGES):
            _take_connectors(page, bootstrap, Path(directory) / "connectors")
        if _wanted(OF_TRANSACTIONS):
            _take_transactions(page, server.url, bootstrap)
        if _wanted(STREAMS_PAGES):
            _take_applications(page, server.url, bootstrap)
        if _wanted(OF_FAILURE):
            _take_failure(page, server.url, Path(directory) / "3.properties")
        browser.close()
    _shrink()


def _take_failure(page: Page, url: str, node: Path) -> None:
    _kill(node)
    time.sleep(FAILOVER_S)
    _take(page, url, {"overview-broker-down": OF_FAILURE.pop("overview-broker-down")})
    time.sleep(ALERTS_S)
    _take(page, url, OF_FAILURE)
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    _take(page, url, {"alerts-phone": OF_FAILURE["alerts"]})


def _take_connectors(page: Page, bootstrap: str, directory: Path) -> None:
    with example_connectors(bootstrap, directory) as service:
        settings = ConsoleSettings(bootstrap=bootstrap, port=0, connect=(service.url,))
        with running(settings) as (_, server):
            time.sleep(CONNECTORS_S)
            pages = {
                name: path.format(service=service.url.removeprefix("http://")) for name, path in CONNECT_PAGES.items()
            }
            _take(page, server.url, pages)
            page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
            _take(page, server.url, {f"{name}-phone": pages[name] for name in ("connect", "connector")})
            page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


def _take_applications(page: Page, url: str, bootstrap: str) -> None:
    announce_examples(bootstrap, reads="clicks", group="search-index")
    time.sleep(APPLICATIONS_S)
    _take(page, url, STREAMS_PAGES)
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    _take(page, url, {f"{name}-phone": STREAMS_PAGES[name] for name in ("streams", "application")})
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    for name in ("fleet", "order-totals", "web-sessions", "nightly-warehouse-export"):
        forget(Admin(bootstrap), name)


@contextmanager
def _cluster(directory: Path, port: int) -> Iterator[None]:
    command = [sys.executable, "-m", "odradek.cli", "up", "-n", "3", "--no-console"]
    for name, value in WITHOUT_VERIFICATION.items():  # for a hanging transaction
        command += ["-c", f"{name}={value}"]
    process = subprocess.Popen(  # noqa: S603 - our own command line
        [*command, "--data", str(directory), "--port", str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        if not any("Odradek is ready" in line for line in process.stdout or ()):
            sys.exit("the cluster did not start")
        threading.Thread(target=lambda: list(process.stdout or ()), daemon=True).start()  # so that no node waits
        yield
    finally:
        process.terminate()
        process.wait()


def _take_transactions(page: Page, url: str, bootstrap: str) -> None:
    producers = [
        _begun(bootstrap, "enricher-orders-1", ["orders", "shipments.v1"]),
        _begun(bootstrap, "payments-writer", ["payments"]),
    ]
    for number in range(12):
        _begun(bootstrap, f"warehouse-task-{number:02}", ["inventory-changes"]).commit_transaction(30)
    _begun(bootstrap, "refunds", ["payments"]).abort_transaction(30)
    offset = _hanging(bootstrap, "clicks")
    time.sleep(ALERTS_S)
    pages = {name: path.format(offset=offset) for name, path in OF_TRANSACTIONS.items()}
    _take(page, url, pages)
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    _take(page, url, {"transactions-phone": pages["transactions"], "transaction-phone": pages["transaction"]})
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    for producer in producers:
        producer.abort_transaction(30)


def _begun(bootstrap: str, name: str, topics: list[str]) -> Producer:
    """A producer with an open transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic in topics:
        for partition in range(3):
            producer.produce(topic, b"{}", partition=partition)
    producer.flush(30)
    return producer


def _hanging(bootstrap: str, topic: str) -> int:
    """Writes the record of a transaction that no coordinator knows to partition 0. Returns its offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "screenshots", "log_level": 0})
    leader = consumer.list_topics(topic).topics[topic].partitions[0].leader
    port = int(bootstrap.split(",")[leader - 1].rpartition(":")[2])
    hang(port, topic, b"{}", timestamp=int(time.time() * 1000) - 7_200_000)
    _, stable = consumer.get_watermark_offsets(TopicPartition(topic, 0))  # nothing else is open there
    consumer.close()
    return int(stable)


def _kill(properties: Path) -> None:
    """The node of this file."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        if str(properties).encode() in process.read_bytes().split(b"\0"):
            os.kill(int(process.parent.name), signal.SIGKILL)


def _wanted(pages: dict[str, str]) -> dict[str, str]:
    return {name: path for name, path in pages.items() if not ONLY or name in ONLY or f"{name}-phone" in ONLY}


def _take(page: Page, url: str, pages: dict[str, str]) -> None:
    page.set_default_timeout(60_000)
    wanted = {name: path for name, path in pages.items() if not ONLY or name in ONLY}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for name, path in wanted.items():
            page.goto(url + path)
            page.wait_for_timeout(1500)
            page.screenshot(path=OUT / f"{name}-{scheme}.png")


def _shrink() -> None:
    """With few colours, a third of the size."""
    if pngquant := shutil.which("pngquant"):
        files = map(str, OUT.glob("*.png"))
        subprocess.run([pngquant, "--force", "--ext", ".png", "--speed", "1", *files], check=False)  # noqa: S603


main()
