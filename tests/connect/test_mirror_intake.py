"""The reader of `mirror` against a real broker: when it says that the end of a partition was reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.client.admin import Admin
from odradek.connect.connectors.mirror.intake import Intake
from odradek.testing import Embedded
from support.topics import Records
from support.waiting import wait_until


@pytest.fixture
def broker() -> Iterator[Embedded]:
    with Embedded() as broker:
        yield broker


@pytest.fixture
def intake(broker: Embedded) -> Iterator[Intake]:
    intake = Intake(broker.bootstrap_servers, {}, "west")
    yield intake
    intake.close()


def taken(intake: Intake, place: tuple[str, int]) -> list[int]:
    """The offsets of the next records."""
    found: list[int] = []

    def has_some() -> bool:
        found.extend(message.offset() for message in intake.taken(place))
        return bool(found)

    wait_until(has_some, f"records of {place}")
    return found


def end_of(intake: Intake, place: tuple[str, int]) -> int | None:
    assert not intake.taken(place)
    return intake.end_reached(place)


def test_an_end_that_was_reported_before_newer_records_is_void(broker: Embedded, intake: Intake) -> None:
    Admin(broker.bootstrap_servers).create_topic("orders", 2)
    first, second = ("orders", 0), ("orders", 1)
    records = Records(broker.bootstrap_servers)
    records.put("orders", ["a"])
    intake.begin(first, 0)
    assert taken(intake, first) == [0]
    # The turn of the second reader also brings the first partition's end, which is not asked for yet.
    intake.begin(second, 0)
    wait_until(lambda: end_of(intake, second) == 0, "the end of the second partition")
    records.put("orders", ["b"])
    assert taken(intake, first) == [1]
    assert intake.end_reached(first) in (None, 2)
    wait_until(lambda: end_of(intake, first) == 2, "the end behind both records")


def test_the_end_of_a_partition_that_is_no_longer_read_is_forgotten(broker: Embedded, intake: Intake) -> None:
    Admin(broker.bootstrap_servers).create_topic("orders", 1)
    first = "orders", 0
    intake.begin(first, 0)
    assert not intake.is_answered()
    wait_until(lambda: not intake.taken(first) and intake.is_answered(), "the first answer")
    intake.end(first)
    Records(broker.bootstrap_servers).put("orders", ["a"])
    intake.begin(first, 0)
    assert intake.end_reached(first) is None
    assert taken(intake, first) == [0]
