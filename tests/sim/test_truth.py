"""When a machine may lose what only others can give back."""

from types import SimpleNamespace

import pytest

from odradek.sim.truth import Truth


def image(*isr):
    partition = SimpleNamespace(isr=isr, replicas=(1, 2))
    return SimpleNamespace(offset=7, topics={"t": SimpleNamespace(partitions=(partition,))})


class OneNode:
    """Knows what is committed and what is decided, and leads a partition."""

    def __init__(self, *, committed, decided, proposal):
        self.quorum = SimpleNamespace(feed=SimpleNamespace(image=committed, ahead=decided))
        self._led = SimpleNamespace(leading=SimpleNamespace(proposal=proposal))

    def replicas(self):
        return [self._led, SimpleNamespace(leading=None)]


def truth_about(node):
    truth = Truth([SimpleNamespace()])
    truth.living = truth.members = truth.running = lambda: [node]
    return truth


def test_all_are_in_sync_and_nobody_is_about_to_leave():
    truth = truth_about(OneNode(committed=image(1, 2), decided=image(1, 2), proposal=None))
    assert truth.is_whole()
    assert truth.stays_whole()


@pytest.mark.parametrize(
    "under_way",
    [{"decided": image(1), "proposal": None}, {"decided": image(1, 2), "proposal": object()}],
    ids=["decided, not committed", "proposed"],
)
def test_one_is_about_to_leave(under_way):
    truth = truth_about(OneNode(committed=image(1, 2), **under_way))
    assert truth.is_whole()
    assert not truth.stays_whole()


def test_one_has_left():
    truth = truth_about(OneNode(committed=image(1), decided=image(1), proposal=None))
    assert not truth.is_whole()
    assert not truth.stays_whole()
