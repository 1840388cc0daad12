"""Clusters that cannot have transactions, and what is said about them."""

import pytest
from confluent_kafka import KafkaException, Producer

from odradek.client import transactions_offered
from odradek.client.transactions_offered import NoTransactions, initialize


def initialized(bootstrap, within_s=60.0):
    config = {"bootstrap.servers": bootstrap}
    initialize(Producer({**config, "transactional.id": "t", "log_level": 0}), config, within_s)


def test_cluster_with_transactions(odradek):
    initialized(odradek.bootstrap_servers)


def test_cluster_that_refuses_transactions(odradek):
    odradek.fail("InitProducerId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", times=9)
    with pytest.raises(NoTransactions, match="not authorized for the transactional id"):
        initialized(odradek.bootstrap_servers)


def test_unreachable_cluster_may_have_transactions(monkeypatch):
    monkeypatch.setattr(transactions_offered, "DOUBT_AFTER_S", 0.2)
    monkeypatch.setattr(transactions_offered, "REQUEST_TIMEOUT_S", 0.2)
    with pytest.raises(KafkaException):
        initialized("127.0.0.1:1", within_s=0.4)
