"""What /metrics says about transactions of librdkafka, a timeout, and a hanging transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker_process import BrokerProcess, free_port
from support.hanging import WITHOUT_VERIFICATION, hang
from support.scraping import Scrape, scrape, scrape_until
from traps.wire import now_ms

COORDINATOR = "odradek_coordinator_transaction_transactioncoordinator"
LATE = "kafka_server_replicamanager_partitionswithlatetransactionscount"
QUARTER_HOUR_MS = 15 * 60 * 1000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    port = free_port()
    data = tmp_path_factory.mktemp("metrics") / "data"
    settings = {
        "http.listener": f"127.0.0.1:{port}",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    }
    with BrokerProcess(data, **settings, **WITHOUT_VERIFICATION) as running:
        running.url = f"http://127.0.0.1:{port}"
        yield running


def create(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        done.result()


def begun(broker: BrokerProcess, topic: str, timeout_ms: int) -> Producer:
    create(broker, topic)
    settings = {"transactional.id": topic, "transaction.timeout.ms": timeout_ms, "log_level": 0}
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"record")
    assert producer.flush(60) == 0
    return producer


def in_state(found: Scrape, state: str) -> float:
    return found(f"{COORDINATOR}_numtransactions", state=state)


def test_transactions_are_counted_by_state(broker: BrokerProcess) -> None:
    producer = begun(broker, "committed", 60_000)
    before = scrape(broker.url)
    assert in_state(before, "Ongoing") == 1
    assert before(f"{COORDINATOR}_numpartitions", state="active") > 0
    producer.commit_transaction(30)
    after = scrape_until(broker.url, lambda found: in_state(found, "CompleteCommit") == 1)
    assert in_state(after, "Ongoing") == 0
    markers = "coordinator_transaction_transactionmarkerchannelmanager"
    for name in ("kafka_{}_unknowndestinationqueuesize", "kafka_{}_logappendretryqueuesize"):
        assert after(name.format(markers)) == 0


def test_aborts_by_timeout_are_counted(broker: BrokerProcess) -> None:
    kept = begun(broker, "slow", 1_000)
    found = scrape_until(broker.url, lambda found: found(f"{COORDINATOR}_timeoutaborts_total") == 1)
    assert in_state(found, "CompleteAbort") + in_state(found, "PrepareAbort") == 1
    del kept


def test_only_a_transaction_older_than_its_longest_timeout_is_late(broker: BrokerProcess) -> None:
    create(broker, "hanging")
    hang(broker.port, "hanging", b"young", timestamp=now_ms() - QUARTER_HOUR_MS)
    assert scrape(broker.url)(LATE) == 0
    create(broker, "late")
    hang(broker.port, "late", b"old", timestamp=now_ms() - 2 * QUARTER_HOUR_MS)
    assert scrape(broker.url)(LATE) == 1
