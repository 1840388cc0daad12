"""The newest metrics of each client, as series for the registry."""

from __future__ import annotations

from odradek.monitor.metric import Kind as MetricKind
from odradek.telemetry.instances import Instance
from odradek.telemetry.otlp import Kind
from odradek.telemetry.samples import CLIENT_LABELS, Pushed, Sample
from odradek.telemetry.series import PushedSeries
from odradek.telemetry.subscriptions import Client, Wanted

CLIENT = Client("User:a", "app", "librdkafka", "2.16.1", "127.0.0.1", 50_000)


def instance(number: int, client_id: str | None = "app") -> Instance:
    return Instance(
        instance_id=bytes(15) + bytes([number]),
        client=CLIENT._replace(client_id=client_id),
        connection=number,
        version=1,
        wanted=Wanted(("*",), 10_000),
        subscription_id=1,
    )


def pushed(*samples: Sample, refused: int = 0) -> Pushed:
    return Pushed(list(samples), refused)


def gauge(name, value, **labels) -> Sample:
    return Sample(name, Kind.GAUGE, False, tuple(sorted(labels.items())), value)


def counter(name, value, *, is_delta=False, **labels) -> Sample:
    return Sample(name, Kind.COUNTER, is_delta, tuple(sorted(labels.items())), value)


def shown(series: PushedSeries) -> list[tuple[str, dict[str, str], float]]:
    """Name, labels without those of the software, value."""
    return [
        (
            reading.metric.name,
            {
                name: value
                for name, value in zip(reading.metric.labels, reading.labels, strict=True)
                if value and "software" not in name and name != "client_instance_id"
            },
            reading.value,
        )
        for reading in series.readings()
    ]


def test_a_push_replaces_the_one_before():
    series = PushedSeries()
    series.store(instance(1), pushed(gauge("a", 1, node="1"), gauge("a", 2, node="2"), gauge("b", 3)), 0)
    series.store(instance(1), pushed(gauge("a", 5, node="2"), gauge("c", 6)), 0)
    assert shown(series) == [("a", {"client_id": "app", "node": "2"}, 5), ("c", {"client_id": "app"}, 6)]
    assert len(series) == 2


def test_series_say_which_client_it_is():
    series = PushedSeries()
    series.store(instance(1), pushed(gauge("a", 1)), 0)
    ((metric, labels, value),) = series.readings()
    assert dict(zip(metric.labels, labels, strict=True)) == {
        "client_instance_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "client_id": "app",
        "client_software_name": "librdkafka",
        "client_software_version": "2.16.1",
    }
    assert (metric.kind, value) == (MetricKind.GAUGE, 1)


def test_clients_share_a_metric_although_their_labels_differ():
    """Two declarations of one name would make the whole scrape invalid."""
    series = PushedSeries()
    series.store(instance(1), pushed(gauge("a", 1, node="1")), 0)
    series.store(instance(2, None), pushed(gauge("a", 2, topic="t")), 0)
    assert shown(series) == [("a", {"client_id": "app", "node": "1"}, 1), ("a", {"topic": "t"}, 2)]
    assert len({reading.metric for reading in series.readings()}) == 1


def test_a_name_has_one_kind():
    series = PushedSeries()
    series.store(instance(1), pushed(gauge("a_total", 1)), 0)
    series.store(instance(2), pushed(counter("a_total", 2), counter("b_total", 3)), 0)
    assert [row[0] for row in shown(series)] == ["a_total", "b_total"]
    assert series.tally.dropped == 1
    series.store(instance(1), pushed(), 0)
    series.store(instance(2), pushed(counter("a_total", 2)), 0)
    assert shown(series) == [("a_total", {"client_id": "app"}, 2)]


def test_deltas_of_a_client_that_insists_on_them_are_added_up():
    series = PushedSeries()
    for value in (3, 4):
        series.store(instance(1), pushed(counter("a_total", value, is_delta=True), counter("b_total", value)), 0)
    assert [row[2] for row in shown(series)] == [7, 4]


def test_series_of_a_client_are_bounded():
    series = PushedSeries(per_client_max=3)
    series.store(instance(1), pushed(*(gauge("a", 1, n=str(n)) for n in range(5)), refused=7), 0)
    assert (len(series), series.tally.dropped, series.tally.refused) == (3, 2, 7)
    assert len(shown(series)) == 3


def test_series_of_all_clients_are_bounded_and_room_is_free_again_when_a_client_is_gone():
    series = PushedSeries(series_max=4, per_client_max=3)
    series.store(instance(1), pushed(*(gauge("a", 1, n=str(n)) for n in range(3))), 0)
    series.store(instance(2), pushed(*(gauge("a", 2, n=str(n)) for n in range(3))), 1)
    assert (len(series), series.tally.dropped) == (4, 2)
    series.expire(60_000)
    series.store(instance(2), pushed(*(gauge("a", 3, n=str(n)) for n in range(3))), 60_000)
    assert [row[2] for row in shown(series)] == [3, 3, 3]


def test_the_last_push_stays_a_minute_for_a_last_scrape():
    series = PushedSeries()
    series.store(instance(1), pushed(gauge("a", 1)), 1000)
    series.expire(60_999)
    assert len(shown(series)) == 1
    series.expire(61_000)
    assert (shown(series), len(series)) == ([], 0)


def test_a_reading_under_way_is_not_disturbed_by_pushes():
    series = PushedSeries()
    series.store(instance(1), pushed(gauge("a", 1), gauge("b", 2)), 0)
    reading = series.readings()
    next(reading)
    series.store(instance(1), pushed(gauge("a", 5, new="label")), 0)
    series.store(instance(2), pushed(gauge("b", 6, other="label")), 0)
    assert [each.value for each in reading] == [2]


def test_the_same_series_twice_in_one_push_is_one_series():
    series = PushedSeries()
    series.store(instance(1), pushed(gauge("a", 1), gauge("a", 2)), 0)
    assert (len(series), [row[2] for row in shown(series)]) == (1, [2])
    series.store(instance(1), pushed(), 0)
    series.expire(10**9)
    assert len(series) == 0


def test_a_metric_has_only_the_labels_of_its_present_series():
    """Otherwise a client with a new attribute in each push would make the metric wider for ever."""
    series = PushedSeries()
    for push in range(3):
        series.store(instance(1), pushed(gauge("a", 1, **{f"attempt_{push}": "x"})), push)
        series.store(instance(2), pushed(gauge("a", 2, node="1")), push)
    assert {label for reading in series.readings() for label in reading.metric.labels} == {
        *CLIENT_LABELS,
        "attempt_2",
        "node",
    }


def test_the_labels_of_a_metric_are_bounded():
    series = PushedSeries(labels_max=3)
    series.store(instance(1), pushed(gauge("a", 1, x="1", y="1")), 0)
    series.store(instance(2), pushed(gauge("a", 2, x="1", z="1"), gauge("a", 3, p="1", q="1"), gauge("b", 4)), 0)
    assert [value for _, _, value in shown(series)] == [1, 2, 4]
    assert series.tally.dropped == 1


def test_a_client_without_series_takes_no_space():
    series = PushedSeries()
    series.store(instance(1), pushed(gauge("a", 1)), 0)
    series.store(instance(1), pushed(), 1)
    assert (len(series), series.clients) == (0, 0)
