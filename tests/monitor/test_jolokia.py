"""Answers to Jolokia requests; the values are those of Jolokia 2.6 for the same requests, see tests/interop."""

from __future__ import annotations

import json
import math

import pytest

from odradek.base import limits
from odradek.monitor import instruments
from odradek.monitor.jolokia import answers as answers_module
from odradek.monitor.jolokia.answers import About, Answering, text
from odradek.monitor.jolokia.requests import BadRequest, from_body, from_path
from odradek.monitor.metric import Kind, Metric
from odradek.monitor.registry import Reading, Registry, run_at_once

ABOUT = About(version="1.2", agent_id="me")
LEADERS = Metric(name="l", mbean="kafka.server:type=Manager,name=Leaders", kind=Kind.GAUGE, unit="x", help="Leaders.")
MESSAGES = Metric(
    name="m", mbean="kafka.server:type=Topics,name=In", kind=Kind.METER, unit="messages", help="In.", labels=("topic",)
)
TIMES = Metric(
    name="t", mbean="kafka.network:type=Times,name=Ms", kind=Kind.HISTOGRAM, unit="ms", help="T.", labels=("request",)
)
FLUSH = Metric(name="f", mbean="kafka.log:type=Flush,name=Ms", kind=Kind.TIMER, unit="ms", help="Flush.")
STATE = Metric(name="s", mbean="kafka.server:type=raft", attribute="state", kind=Kind.STATE, unit="", help="State.")
EPOCH = Metric(name="e", mbean="kafka.server:type=raft", attribute="epoch", kind=Kind.GAUGE, unit="", help="Epoch.")
LATENCY = Metric(name="a", mbean="kafka.server:type=raft", attribute="avg", kind=Kind.GAUGE, unit="", help="Latency.")
CPU = Metric(
    name="c",
    mbean="java.lang:type=OS",
    attribute="Cpu",
    kind=Kind.COUNTER,
    unit="s",
    help="C.",
    mbean_scale=1_000_000_000,
)

METER_ATTRIBUTES = {
    "Count",
    "MeanRate",
    "OneMinuteRate",
    "FiveMinuteRate",
    "FifteenMinuteRate",
    "RateUnit",
    "EventType",
}
DISTRIBUTION_ATTRIBUTES = {"Count", "Min", "Max", "Mean", "StdDev"} | {
    f"{each}Percentile" for each in ("50th", "75th", "95th", "98th", "99th", "999th")
}


@pytest.fixture
def registry():
    registry = Registry(lambda: 0)
    registry.gauge(LEADERS, lambda: 3)
    registry.counter(MESSAGES).count += 7
    registry.counter(MESSAGES, "orders").count += 5
    registry.counter(MESSAGES, "a*b").count += 2
    registry.distribution(TIMES, "Produce").observe(4)
    registry.timer(FLUSH).observe(9)
    registry.gauge(STATE, lambda: "leader")
    registry.gauge(EPOCH, lambda: 2)
    registry.gauge(LATENCY, lambda: math.nan)
    registry.gauge(CPU, lambda: 1.5)
    return registry


def answered(registry, requests):
    return run_at_once(Answering(ABOUT, 77).answers(requests, registry.snapshot()))


@pytest.fixture
def get(registry):
    def get(path, **query):
        (answer,) = answered(registry, [from_path(path, query)])
        return answer

    return get


@pytest.fixture
def post(registry):
    def post(document):
        requests, is_list = from_body(json.dumps(document).encode(), {})
        answers = answered(registry, requests)
        return answers if is_list else answers[0]

    return post


def test_a_read_repeats_the_request_and_has_all_attributes(get):
    assert get("read/kafka.server:type=Manager,name=Leaders") == {
        "request": {"mbean": "kafka.server:type=Manager,name=Leaders", "attribute": [], "type": "read"},
        "value": {"Value": 3},
        "status": 200,
        "timestamp": 77,
    }


def test_one_attribute_is_a_value_and_several_are_a_map(get):
    name = "read/kafka.server:name=In,type=Topics"
    assert get(f"{name}/Count")["value"] == 7
    assert get(f"{name}/Count,EventType")["value"] == {"Count": 7, "EventType": "messages"}
    assert get(f"{name}/Count")["request"]["attribute"] == "Count"


def test_attributes_are_those_of_kafka(get):
    assert get("read/kafka.server:type=Topics,name=In")["value"].keys() == METER_ATTRIBUTES
    assert get("read/kafka.network:type=Times,name=Ms,request=Produce")["value"].keys() == DISTRIBUTION_ATTRIBUTES
    flush = get("read/kafka.log:type=Flush,name=Ms")["value"]
    assert flush.keys() == METER_ATTRIBUTES | DISTRIBUTION_ATTRIBUTES | {"LatencyUnit"}
    assert (flush["Max"], flush["Count"], flush["EventType"]) == (9, 1, "calls")


def test_metrics_of_one_mbean_are_its_attributes(get):
    """NaN is null, as JSON has none."""
    assert get("read/kafka.server:type=raft")["value"] == {"state": "leader", "epoch": 2, "avg": None}


def test_a_value_has_the_unit_of_its_mbean(get):
    assert get("read/java.lang:type=OS/Cpu")["value"] == 1.5e9


def test_a_pattern_reads_all_matching_mbeans(get):
    answer = get("read/kafka.server:type=Topics,name=*,*/Count")
    assert answer["request"]["mbean"] == "kafka.server:name=*,type=Topics,*"
    assert answer["value"] == {
        "kafka.server:type=Topics,name=In": {"Count": 7},
        "kafka.server:type=Topics,name=In,topic=orders": {"Count": 5},
        'kafka.server:type=Topics,name=In,topic="a\\*b"': {"Count": 2},
    }
    assert get("read/*:type=Topics,name=In/Count")["value"] == {"kafka.server:type=Topics,name=In": {"Count": 7}}
    assert get("read/kafka.server:type=Topics,name=In,topic=o*/Count")["value"].keys() == {
        "kafka.server:type=Topics,name=In,topic=orders"
    }
    assert len(get("search")["value"]) == 10


def test_a_pattern_leaves_out_mbeans_without_the_attribute(get):
    assert get("read/*:*/Value")["value"] == {"kafka.server:type=Manager,name=Leaders": {"Value": 3}}


def test_names_are_canonical_if_asked(get):
    assert get("search/*:type=M*,*", canonicalNaming="true")["value"] == ["kafka.server:name=Leaders,type=Manager"]


def test_an_inner_path(get, post):
    assert get("read/kafka.server:type=Topics,name=In//Count")["value"] == 7
    assert get("read/kafka.server:type=Manager,name=Leaders/Value/a/b")["value"] is None
    answer = post({"type": "read", "mbean": "kafka.server:type=Man*,*", "path": "*/Value"})
    assert answer["value"] == {"kafka.server:type=Manager,name=Leaders": 3}
    assert answer["request"]["path"] == "*/Value"


def test_escaped_slashes(get):
    assert get("read/a!/b!!c:d=e/x!/y")["request"] == {"mbean": "a/b!c:d=e", "attribute": "x/y", "type": "read"}


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("read/kafka.server:type=No", "InstanceNotFoundException", "kafka.server:type=No"),
        (
            "read/kafka.server:type=No,*",
            "InstanceNotFoundException",
            "No MBean with pattern kafka.server:type=No,* found for READ request",
        ),
        ("read/kafka.server:type=Manager,name=Leaders/No", "AttributeNotFoundException", "No such attribute: No"),
        ("read/*:*/No", "AttributeNotFoundException", "No attribute found for any MBean matching *:* pattern"),
        ("list/a/b=c", "InstanceNotFoundException", "InstanceNotFoundException for MBean a:b=c (a:b=c)"),
    ],
)
def test_what_does_not_exist_is_404_inside_the_answer(get, path, kind, message):
    answer = get(path, includeRequest="false")
    jmx = f"javax.management.{kind}"
    assert answer == {"error_type": jmx, ".error": True, "error_type_jmx": jmx, "error": message, "status": 404}


def test_ignored_errors_are_values(post):
    request = {"type": "read", "mbean": "kafka.server:type=Manager,name=Leaders", "attribute": ["Value", "No"]}
    assert post(request)["status"] == 404
    value = post(request | {"config": {"ignoreErrors": "true"}})["value"]
    assert value["Value"] == 3
    assert value["No"]["error"] == "No such attribute: No"


def test_exec_and_write_are_forbidden(get, post):
    answer = get("exec/java.lang:type=OS/gc")
    assert (answer["status"], answer["error"]) == (403, "Operation gc forbidden for MBean java.lang:type=OS")
    assert answer["request"] == {"mbean": "java.lang:type=OS", "type": "exec", "operation": "gc"}
    answer = post({"type": "write", "mbean": "b:z=1,a=2", "attribute": "X", "value": 5})
    assert (answer["status"], answer["error"]) == (403, "Writing attribute X forbidden for MBean b:a=2,z=1")
    assert answer["request"]["value"] == 5


def test_list_describes_attributes(get):
    value = get("list")["value"]
    assert value["kafka.server"]["type=raft"]["attr"]["epoch"] == {
        "r": True,
        "rw": False,
        "w": False,
        "is": False,
        "type": "double",
        "desc": "Epoch.",
    }
    assert value["kafka.server"]["type=Topics,name=In"]["attr"].keys() == METER_ATTRIBUTES
    assert get("list/kafka.server/name=In,type=Topics/attr")["value"]["Count"]["type"] == "long"
    assert get("list", maxDepth="1")["value"]["java.lang"] == "1"
    assert get("list", maxDepth="2")["value"]["java.lang"] == {"type=OS": "1"}
    assert get("list/java.lang", maxDepth="1")["value"] == 1
    assert get("list/java.lang", maxDepth="2")["value"] == {"type=OS": 1}
    assert get("list/nope")["value"] == {}
    assert get("list/kafka.*/type=raft/desc")["value"] == {"type=raft": {"desc": "State."}}


def test_version(get):
    assert get("")["value"] == get("version")["value"]
    assert get("")["value"]["protocol"] == answers_module.PROTOCOL


def test_a_list_of_requests_has_a_list_of_answers(post):
    answers = post(
        [{"type": "version"}, {"type": "READ", "mbean": "a:b=c"}, {"type": "search", "mbean": "java.lang:*"}]
    )
    assert [each["status"] for each in answers] == [200, 404, 200]
    assert answers[2]["value"] == ["java.lang:type=OS"]
    assert post([]) == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"nonsense", "Invalid JSON request"),
        (b"", "Invalid JSON request"),
        (b"[" * 100_000, "Invalid JSON request"),
        (b"5", "Invalid JSON Request. Expected Object or Array"),
        (b"[5]", "A request within a list must be a JSON object"),
        (b'{"mbean": "a:b=c"}', "No type given"),
        (b'{"type": "nope"}', "No type with name 'nope' exists"),
        (b'{"type": "read"}', "Read POST requests require an ObjectName"),
        (b'{"type": "read", "mbean": 5}', "mbean must be a string"),
        (b'{"type": "read", "mbean": "a:b=c", "attribute": [5]}', "attribute must be"),
        (b'{"type": "read", "mbean": "a:b=c", "target": {}}', "target is not supported"),
        (b'[{"type": "version"}, {"type": "read", "mbean": "bad"}]', "Key properties cannot be empty"),
        (b'{"type": "exec", "mbean": "a:b=c"}', "Exec POST requests require an operation name"),
        (b'{"type": "list", "config": {"maxDepth": "x"}}', "maxDepth must be a number"),
        (json.dumps([{"type": "version"}] * 501).encode(), "501 requests in one list, the limit is 500"),
        (b" " * (limits.jolokia_request_bytes_max + 1), "The body has"),
    ],
)
def test_bad_requests_are_refused_before_a_snapshot(body, problem):
    with pytest.raises(BadRequest) as refused:
        from_body(body, {})
    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(
    "path", ["read", "nope/x", "read/bad", "search/bad", "list/a/bad", "list/a/b=c/d/e", "exec", "write/a:b=c"]
)
def test_bad_paths_are_refused(path):
    with pytest.raises(BadRequest):
        from_path(path, {})


def test_work_is_done_in_slices_and_answers_are_bounded(monkeypatch):
    many = 5_000
    snapshot = [Reading(MESSAGES, (str(number),), instruments.MeterReading(1, 0, 0, 0, 0)) for number in range(many)]
    requests = [from_path("read/kafka.server:*", {}), from_path("list", {}), from_path("search", {})]
    slices = list(Answering(ABOUT, 0).answers(requests, snapshot))
    assert max(slices) <= limits.metric_readings_per_slice_max
    assert len(slices) > 4 * many / limits.metric_readings_per_slice_max
    monkeypatch.setattr(answers_module, "jolokia_mbeans_per_answer_max", many)
    first, second, _ = run_at_once(Answering(ABOUT, 0).answers(requests, snapshot))
    assert len(first["value"]) == many
    assert (second["status"], second["error_type"]) == (500, "java.lang.IllegalStateException")
    pieces = list(text(first))
    assert json.loads("".join(pieces)) == first
    assert len(pieces) > many // 100
