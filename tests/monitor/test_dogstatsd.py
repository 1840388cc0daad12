"""Datagrams of DogStatsD: their grammar, deltas and sizes."""

from __future__ import annotations

import re
import socket

import pytest
from datadog.dogstatsd import DogStatsd

from odradek.base import limits
from odradek.monitor.dogstatsd import Datagrams
from odradek.monitor.metric import Kind, Metric
from odradek.monitor.registry import Registry

# As documented by Datadog: <name>:<value>|<type>|#<tag>:<value>,...
LINE = re.compile(r"(?P<name>[\w.]+):(?P<value>-?[\d.e+-]+)\|(?P<kind>[cg])(\|#(?P<tags>[^|#\n]+))?")


def declared(kind, name, **more):
    return Metric(name=name, mbean=f"test:type={name}", kind=kind, unit="bytes", help="Text.", **more)


SENT = declared(Kind.METER, "sent_total", labels=("topic",))
LEVEL = declared(Kind.GAUGE, "level")
MODE = declared(Kind.STATE, "mode")
SIZES = declared(Kind.HISTOGRAM, "sizes")


def parsed(content):
    found = {}
    for line in content.decode().split("\n"):
        match = LINE.fullmatch(line)
        assert match, line
        tags = tuple(sorted((match["tags"] or "").split(",")))
        found[match["name"], tags] = (match["kind"], float(match["value"]))
    return found


def pushed(datagrams, registry, *, lost=False):
    found = {}
    for datagram in datagrams.of(registry.snapshot()):
        found |= parsed(datagram.content)
        if not lost:
            datagrams.sent(datagram)
    return found


@pytest.fixture
def registry():
    return Registry(lambda: 1)


def test_counters_are_deltas_of_what_was_sent(registry):
    datagrams = Datagrams(limits.dogstatsd_udp_bytes_max, {"service": "odradek"})
    counter = registry.counter(SENT, "orders")
    series = "sent_total", ("service:odradek", "topic:orders")
    counter.count = 5
    assert pushed(datagrams, registry)[series] == ("c", 5)
    counter.count = 7
    assert pushed(datagrams, registry, lost=True)[series] == ("c", 2)
    counter.count = 8
    assert pushed(datagrams, registry)[series] == ("c", 3)
    assert series not in pushed(datagrams, registry), "nothing was added"
    registry.forget(SENT, "orders")
    pushed(datagrams, registry)
    registry.counter(SENT, "orders").count = 4
    assert pushed(datagrams, registry)[series] == ("c", 4)


def test_gauges_states_and_distributions(registry):
    registry.gauge(LEVEL, lambda: 2.5)
    registry.gauge(MODE, lambda: "leader")
    registry.distribution(SIZES).observe(3)
    found = pushed(Datagrams(1432, {}), registry)
    assert found["level", ("",)] == ("g", 2.5)
    assert found["mode", ("state:leader",)] == ("g", 1)
    assert found["sizes.quantile", ("quantile:0.99",)] == ("g", 3)
    assert found["sizes.count", ("",)] == ("c", 1)
    assert found["sizes.sum", ("",)] == ("c", 3)


def test_separators_in_a_label_do_not_break_the_line(registry):
    registry.counter(SENT, "a|b,c#d\ne").count = 1
    found = pushed(Datagrams(1432, {}), registry)
    assert found["sent_total", ("topic:a_b_c_d_e",)] == ("c", 1)


def test_datagrams_are_bounded_and_complete(registry):
    for number in range(200):
        registry.counter(SENT, f"topic-{number}").count = number
    sizes = [len(each.content) for each in Datagrams(300, {}).of(registry.snapshot())]
    assert max(sizes) <= 300
    assert len(sizes) < 100, "lines share datagrams"
    found = pushed(Datagrams(300, {}), registry)
    assert {found["sent_total", (f"topic:topic-{number}",)] for number in range(200)} == {
        ("c", number) for number in range(200)
    }


def test_lines_equal_those_of_datadogs_own_client(registry):
    registry.counter(SENT, "orders").count = 5
    registry.gauge(LEVEL, lambda: 2.5)
    ours = [line for each in Datagrams(1432, {}).of(registry.snapshot()) for line in each.content.decode().split("\n")]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(30)
        theirs = DogStatsd("127.0.0.1", agent.getsockname()[1], disable_telemetry=True, disable_buffering=True)
        theirs.increment("sent_total", 5, tags=["topic:orders"])
        theirs.gauge("level", 2.5)
        lines = {agent.recv(65536).decode().strip() for _ in range(2)}
        theirs.close_socket()
    assert lines <= set(ours)
