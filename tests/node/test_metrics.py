"""A real broker, real clients, and what /metrics says about them."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.monitor.catalogue import broker as catalogue_of_broker
from odradek.monitor.catalogue import groups, monitoring, process, quorum, requests, topics, transactions
from odradek.monitor.metric import Metric
from support.broker_process import BrokerProcess, free_port
from support.scraping import Scrape, scrape, scrape_until
from support.waiting import wait_until

TIMES = ("requestqueuetimems", "localtimems", "remotetimems", "responsequeuetimems", "responsesendtimems")
RECORDS, RECORD_BYTES = 300, 100


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    port = free_port()
    data = tmp_path_factory.mktemp("metrics") / "data"
    with BrokerProcess(data, **{"http.listener": f"127.0.0.1:{port}"}) as running:
        running.url = f"http://127.0.0.1:{port}"
        yield running


def create(broker, topic, partitions=1):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        done.result()


def produce(broker, topic, count=RECORDS, **config):
    """One request for each record. Returns when all are acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "batch.num.messages": 1, **config})
    for _ in range(count):
        producer.produce(topic, bytes(RECORD_BYTES))
    assert producer.flush(60) == 0


def requests_of(found, request):
    counted = found.all("kafka_network_requestmetrics_requests_total")
    return sum(value for labels, value in counted.items() if dict(labels)["request"] == request)


def test_requests_records_and_bytes_of_a_real_client_are_counted_exactly(broker):
    create(broker, "exact", 2)
    before = scrape(broker.url)
    produce(broker, "exact")
    after = scrape(broker.url)
    assert requests_of(after, "Produce") - requests_of(before, "Produce") == RECORDS
    total = "kafka_network_requestmetrics_totaltimems_count"
    assert after(total, request="Produce") - before(total, request="Produce") == RECORDS
    errors = "kafka_network_requestmetrics_errors_total"
    assert after(errors, request="Produce", error="NONE") - before(errors, request="Produce", error="NONE") == RECORDS
    topics = "kafka_server_brokertopicmetrics_"
    assert after(f"{topics}messagesin_total", topic="exact") == RECORDS
    assert after(f"{topics}totalproducerequests_total", topic="exact") == RECORDS
    assert after(f"{topics}messagesin_total") - before(f"{topics}messagesin_total") == RECORDS
    assert RECORDS * RECORD_BYTES < after(f"{topics}bytesin_total", topic="exact") < RECORDS * (RECORD_BYTES + 100)


def test_consumed_bytes_are_counted_and_fetches_are_divided_by_reader(broker):
    create(broker, "read")
    produce(broker, "read", 10)
    before = scrape(broker.url)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["read"])
    seen = 0
    while seen < 10:
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        seen += 1
    consumer.close()
    after = scrape(broker.url)
    topics = "kafka_server_brokertopicmetrics_"
    assert after(f"{topics}bytesout_total", topic="read") == after(f"{topics}bytesin_total", topic="read")
    fetches = requests_of(after, "Fetch") - requests_of(before, "Fetch")
    assert fetches == requests_of(after, "FetchConsumer") - requests_of(before, "FetchConsumer") > 0
    assert requests_of(after, "FetchFollower") == 0


def test_the_parts_of_the_time_of_requests_add_up(broker):
    create(broker, "times")
    produce(broker, "times")
    found = scrape(broker.url)
    for request in {dict(labels)["request"] for labels in found.all("kafka_network_requestmetrics_totaltimems_count")}:
        total = found("kafka_network_requestmetrics_totaltimems_sum", request=request)
        parts = sum(found(f"kafka_network_requestmetrics_{part}_sum", request=request) for part in TIMES)
        assert parts == pytest.approx(total), request
        assert found("kafka_network_requestmetrics_throttletimems_sum", request=request) == 0
    assert found("kafka_network_requestmetrics_localtimems", request="Produce", quantile="0.5") > 0
    assert found("kafka_network_requestmetrics_requestbytes", request="Produce", quantile="0.5") > RECORD_BYTES


def test_errors_are_counted_by_code(broker):
    before = scrape(broker.url)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for _ in range(3):
        for done in admin.create_topics([NewTopic("bad name", 1, 1)]).values():
            assert done.exception() is not None
    after = scrape(broker.url)
    errors = "kafka_network_requestmetrics_errors_total"
    labels = {"request": "CreateTopics", "error": "INVALID_TOPIC_EXCEPTION"}
    assert after(errors, **labels) - before(errors, **labels) == 3


def test_replicas_connections_and_the_process_are_described(broker):
    create(broker, "described", 3)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.list_topics(timeout=60)
    partitions = "kafka_server_replicamanager_partitioncount"
    connections = "kafka_server_socket_server_metrics_connection_count"
    listener = {"listener": "PLAINTEXT", "networkProcessor": "0"}

    def is_measured(now: Scrape) -> bool:
        """The disk and the event loop are measured some time after the start; scrapes may share a snapshot."""
        later = ("odradek_log_logmanager_disktotalbytes", "odradek_server_eventloop_latencyms_count")
        return now(partitions) >= 3 and now(connections, **listener) >= 1 and all(now(name) > 0 for name in later)

    found = scrape_until(broker.url, is_measured)
    assert found("kafka_server_replicamanager_leadercount") == found(partitions)
    assert found("kafka_server_replicamanager_atminisrpartitioncount") == found(partitions)
    assert found("kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert found("kafka_server_socket_server_metrics_incoming_byte_total", **listener) > 0
    assert found("kafka_server_socket_server_metrics_outgoing_byte_total", **listener) > 0
    assert 0 < found("odradek_log_logmanager_diskusablebytes") <= found("odradek_log_logmanager_disktotalbytes")
    assert found("process_open_fds") > 0
    del producer


def test_a_deleted_topic_has_no_series_but_stays_in_the_total(broker):
    create(broker, "gone")
    produce(broker, "gone", 5)
    messages = "kafka_server_brokertopicmetrics_messagesin_total"
    before = scrape(broker.url)
    assert before(messages, topic="gone") == 5
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.delete_topics(["gone"]).values():
        done.result()
    after = scrape_until(broker.url, lambda now: (messages, frozenset({("topic", "gone")})) not in now.samples)
    assert after(messages) >= before(messages)


def test_every_declared_metric_of_a_node_is_served(broker):
    # One stays connected, for the metric of clients by their software.
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.list_topics(timeout=60)
    declared = {
        metric.name
        for module in (requests, topics, catalogue_of_broker, groups, transactions, quorum, process, monitoring)
        for metric in vars(module).values()
        if isinstance(metric, Metric)
    }

    def missing() -> set[str]:
        types = scrape(broker.url).types
        return declared - set(types) - {f"{name}_total" for name, kind in types.items() if kind == "counter"}

    # The size of the disk is read, and the client connects again, some time after the start.
    wait_until(lambda: not missing(), missing)


def test_without_metrics_only_the_process_and_pushed_metrics_of_clients_are_described(tmp_path):
    port = free_port()
    settings = {"http.listener": f"127.0.0.1:{port}", "metrics.enable": "false"}
    with BrokerProcess(tmp_path / "data", **settings) as broker:
        create(broker, "t")
        found = scrape(f"http://127.0.0.1:{port}")
    assert found("process_open_fds") > 0
    assert requests_of(found, "CreateTopics") == 0
    of_node = [name for name, _ in found.samples if name.startswith("kafka_")]
    assert [name for name in of_node if not name.startswith("kafka_server_client_metrics_")] == []
