"""What happens to transactional ids over time: the cluster's transaction.version is raised, and unused ids expire."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from odradek.base.errors import ErrorCode
from odradek.protocol.messages.p18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.p57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.protocol.messages.p65_describe_transactions import DescribeTransactionsRequest
from odradek.testing import Embedded
from support.waiting import wait_until
from traps.test_transactions import TV2_END, TV2_PRODUCE, Transactor, _retried, committed, eventually
from traps.wire import Wire

FEATURE = "transaction.version"
UPGRADE, SAFE_DOWNGRADE = 1, 2
OLD_PRODUCE = 11
EXPIRATION = timedelta(days=1)


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[Embedded]:
    """A broker whose records survive a restart."""
    settings = {
        "transactional.id.expiration.ms": int(EXPIRATION / timedelta(milliseconds=1)),
        "transaction.remove.expired.transaction.cleanup.interval.ms": 50,
    }
    with Embedded(data=tmp_path, config=settings) as broker:
        yield broker


def set_level(wire: Wire, level: int, upgrade_type: int) -> None:
    update = FeatureUpdateKey(feature=FEATURE, max_version_level=level, upgrade_type=upgrade_type)
    answer = wire.ask(UpdateFeaturesRequest(feature_updates=[update]), 1)
    assert answer.results[0].error_code == 0, answer.results[0].error_message

    def is_told() -> bool:
        told = wire.ask(ApiVersionsRequest(client_software_name="trap", client_software_version="1"), 3)
        levels = {each.name: each.max_version_level for each in told.finalized_features}
        return levels.get(FEATURE, 0) == level

    wait_until(is_told, f"clients do not learn that {FEATURE} is {level}")


def state_of(wire: Wire, transactional_id: str) -> tuple[int, str]:
    [found] = wire.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0).transaction_states
    return found.error_code, found.transaction_state


def produce(producer: Transactor, topic: str, value: bytes, version: int) -> int:
    return _retried(lambda: producer.produce(topic, value, version=version), lambda code: code)


def test_open_transaction_of_an_older_client_survives_an_upgrade_and_newer_clients_get_epochs(
    lasting: Embedded,
) -> None:
    with Wire(lasting.port) as wire:
        topic = wire.create_topic("t")
        for level in (1, 0):
            set_level(wire, level, SAFE_DOWNGRADE)
        older = Transactor(wire, "older")
        assert older.add(topic, 0) == [0]
        assert older.produce(topic, b"before the upgrade", version=OLD_PRODUCE) == 0
        for level in (1, 2):
            set_level(wire, level, UPGRADE)
        assert older.produce(topic, b"after the upgrade", version=OLD_PRODUCE) == 0
        epoch = older.epoch
        assert older.end() == 0
        assert older.epoch == epoch
        eventually(lambda: committed(wire, topic), [b"before the upgrade", b"after the upgrade"])
        newer = Transactor(wire, "older")
        for value in (b"first", b"second"):
            epoch = newer.epoch
            assert produce(newer, topic, value, TV2_PRODUCE) == 0
            assert newer.end(version=TV2_END) == 0
            assert newer.epoch == epoch + 1
        assert older.produce(topic, b"fenced", version=OLD_PRODUCE) == ErrorCode.INVALID_PRODUCER_EPOCH
        eventually(lambda: committed(wire, topic)[2:], [b"first", b"second"])


def test_unused_transactional_id_expires_and_stays_away_after_a_restart(lasting: Embedded) -> None:
    with Wire(lasting.port) as wire:
        topic = wire.create_topic("t")
        unused = Transactor(wire, "unused")
        assert produce(unused, topic, b"before", TV2_PRODUCE) == 0
        assert unused.end(version=TV2_END) == 0
        eventually(lambda: state_of(wire, "unused"), (0, "CompleteCommit"))
        still_open = Transactor(wire, "open")
        assert produce(still_open, topic, b"open", TV2_PRODUCE) == 0

        lasting.advance_clock(2 * EXPIRATION)

        eventually(lambda: state_of(wire, "unused"), (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ""))
        assert state_of(wire, "open") == (0, "Ongoing")
        assert unused.end(version=TV2_END) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        lasting.kill()
        lasting.start()
    with Wire(lasting.port) as wire:
        eventually(lambda: state_of(wire, "unused"), (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ""))
        before = unused.producer_id
        again = Transactor(wire, "unused")
        assert again.producer_id != before
        assert produce(again, topic, b"again", TV2_PRODUCE) == 0
        assert again.end(version=TV2_END) == 0
        still_open.wire = wire
        assert still_open.end(version=TV2_END) == 0
        eventually(lambda: committed(wire, topic), [b"before", b"open", b"again"])
