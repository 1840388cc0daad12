"""Where the metrics of an application are served and pushed; and a real application that is scraped."""

from __future__ import annotations

import re

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from odradek.pipeline.errors import StreamsError
from odradek.streams import App
from odradek.streams.run.measuring import measured
from odradek.streams.run.running import start
from support.waiting import wait_until


def settings_of(**given):
    return App("fleet").settings.over(**given)


def exported(**given):
    return measured(App("fleet").application, settings_of(**given))[0]


def test_metrics_are_on_loopback_unless_they_are_turned_off():
    with exported() as metrics:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", metrics.url)
        assert httpx.get(metrics.url).status_code == 200
    with exported(metrics="off") as metrics:
        assert metrics.url is None
    with exported(metrics="127.0.0.1:0") as metrics:
        assert metrics.url


@pytest.mark.parametrize("wrong", [{"metrics": "9464"}, {"metrics": "host:x"}, {"otlp": "host"}, {"dogstatsd": ":"}])
def test_wrong_addresses_are_refused(wrong):
    with pytest.raises(StreamsError, match="write"):
        exported(**wrong)


def test_running_application_is_scraped(spark, topics, tmp_path, monkeypatch):
    monkeypatch.setattr("odradek.pipeline.metering.MEASURE_EVERY_S", 0.05)
    app = App("scraped", topics.bootstrap, state_dir=str(tmp_path))
    app.stream("measured-in", schema="driver string", dlq="measured-dead").to("measured-out")
    topics.send("measured-in", {"driver": "a"}, {"driver": "b"}, "no JSON")
    metrics, meter = measured(app.application, app.settings.over(metrics="127.0.0.1:0"))

    def found():
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in parse_text(httpx.get(metrics.url).text)
            for sample in family.samples
        }

    with (
        metrics,
        start(app.application, app.settings, spark, meter=meter) as running,
        meter.measuring_lag(topics.bootstrap, {}),
    ):
        running.await_all_processed()
        topics.send("measured-in", {"driver": "c"})
        running.await_all_processed()
        processed = "kafka_streams_stream_thread_metrics_process_total", "scraped.measured-in"
        letters = "odradek_streams_application_deadletters_total", "measured-dead", "scraped"
        # A letter, and the marker of its transaction.
        wait_until(lambda: (now := found()).get(processed) == 4 and now.get(letters) == 2, found)
        samples = found()
        assert samples["kafka_streams_stream_metrics_state_info", "RUNNING", "scraped"] == 1
        assert samples["odradek_streams_query_batches_total", "measured-in", "scraped"] >= 2
        assert samples["odradek_streams_query_batchtimems_sum", "measured-in", "scraped"] > 0
        assert samples["odradek_streams_query_secondsbehind", "measured-in", "scraped"] >= 0
