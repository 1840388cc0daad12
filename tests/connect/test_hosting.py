"""A connect service in the Spark session of an application: its tasks run beside the application's queries."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

import httpx
import pytest

from odradek.connect.hosting import HostedService, SharedSessionJobs
from odradek.connect.service.settings import Settings
from odradek.connect.tasks.spec import Ending, Outcome, TaskSpec
from odradek.spark.session import with_more_slots
from odradek.streams import App
from odradek.streams.run.running import start
from odradek.web.listening import CannotListen, listening
from streams.broker import Topics
from support.broker_process import free_port
from support.waiting import wait_until

ORDERS = {"connector.class": "datagen", "topic": "hosted.orders", "count": "50", "rate": "1000"}


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=30).status_code == 200
    except httpx.TransportError:
        return False


def settings(bootstrap: str, port: int) -> Settings:
    return Settings(bootstrap=bootstrap, port=port, linger_s=0.5)


def test_connectors_run_in_the_session_of_an_application(spark, broker, tmp_path):
    bootstrap = broker.bootstrap_servers
    hosted = HostedService(settings(bootstrap, free_port()))
    app = App("hosting", bootstrap, state_dir=str(tmp_path))
    app.stream("hosted.orders", start="earliest").to("hosted.copies")
    topics = Topics(bootstrap)
    topics.create("hosted.orders")
    running = start(app.application, app.settings, spark, guest=hosted)
    try:
        wait_until(lambda: answers(hosted.url))
        created = httpx.put(f"{hosted.url}/connectors/orders/config", json=ORDERS, timeout=60)
        assert created.status_code == 201, created.text
        wait_until(lambda: len(topics.records("hosted.copies")) == 50, within_s=300)
        running.check()
    finally:
        running.stop()
    assert not answers(hosted.url)


def spec(run: str) -> TaskSpec:
    return TaskSpec(
        run=run,
        connector="c",
        task=0,
        given={},
        bootstrap="",
        clients={},
        offsets_topic="",
        driver=("127.0.0.1", 1),
        token="",
        linger_s=0,
        transactional_id=None,
        partitions=(),
        topics=(),
    )


@pytest.mark.parametrize("end", [lambda jobs, session: session.cancel(), lambda jobs, session: jobs.kill("r-1")])
def test_run_that_waits_for_a_session_is_lost_when_there_is_none_or_it_must_stop(end):
    ended: list[tuple[str, Outcome]] = []
    done = threading.Event()
    session: Future = Future()
    jobs = SharedSessionJobs(session, 4, lambda run, outcome: (ended.append((run, outcome)), done.set()))
    jobs.launch(spec("r-1"))
    assert not ended
    end(jobs, session)
    assert done.wait(60)
    assert [(run, outcome.ending) for run, outcome in ended] == [("r-1", Ending.LOST)]


def test_taken_port_is_an_error_before_spark_starts(broker):
    with listening("127.0.0.1", 0) as taken:
        hosted = HostedService(settings(broker.bootstrap_servers, taken.getsockname()[1]))
        with pytest.raises(CannotListen):
            hosted.prepare()
        hosted.leave()


def test_a_service_that_cannot_start_is_logged_and_ends_when_asked(caplog):
    hosted = HostedService(Settings(bootstrap="127.0.0.1:1", port=free_port(), clients={"socket.timeout.ms": 1000}))
    with caplog.at_level(logging.ERROR, "odradek.connect"):
        hosted.prepare()
        wait_until(lambda: "connect does not run" in caplog.text)
    hosted.leave()


@pytest.mark.parametrize(
    ("master", "conf", "expected"),
    [
        ("local[3]", {}, ("local[7]", {"spark.sql.shuffle.partitions": "3"})),
        ("local", {}, ("local[5]", {"spark.sql.shuffle.partitions": "1"})),
        (None, {"spark.master": "local[2]"}, ("local[6]", {"spark.master": "local[2]"})),
        ("local[3]", {"spark.sql.shuffle.partitions": "9"}, ("local[7]", {})),
        ("spark://host:7077", {}, ("spark://host:7077", {})),
        ("local-cluster[2, 1, 1024]", {}, ("local-cluster[2, 1, 1024]", {})),
    ],
)
def test_more_slots_are_added_on_one_machine_only(monkeypatch, master, conf, expected):
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    found, settings = with_more_slots(master, conf, 4)
    assert found == expected[0]
    assert expected[1].items() | conf.items() <= settings.items()
