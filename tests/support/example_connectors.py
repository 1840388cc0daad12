"""Connectors in different states on a service without Spark, for screenshots of the console."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.connect_service import Service, connect_service, eventually

LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "orders-archive-dead-letters",
    "errors.deadletterqueue.context.headers.enable": "true",
}
CONNECTORS = {
    "web-clicks": {"connector.class": "datagen", "topic": "web-clicks", "rate": "120"},
    "crm-customers": {"connector.class": "datagen", "topic": "crm-customers", "rate": "15"},
    "clicks-lake": {"connector.class": "lake", "topics": "clicks", "rotate.interval.ms": "2000"},
    "orders-archive": {
        "connector.class": "files-sink",
        "topics": "orders",
        "transforms": "total",
        "transforms.total.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.total.spec": "note:int32",
        "transforms.total.predicate": "odd",
        "predicates": "odd",
        "predicates.odd.type": "HasHeaderKey",
        "predicates.odd.name": "imported",
        **LETTERS,
    },
    "warehouse-payments": {
        "connector.class": "sql-sink",
        "topics": "payments",
        "connection.url": "postgresql://warehouse:5432/payments",
        "connection.user": "odradek",
        "connection.password": "not a real one",
        "restart.attempts.max": "0",
    },
}


@contextmanager
def example_connectors(bootstrap: str, folder: Path) -> Iterator[Service]:
    with connect_service(bootstrap) as service:
        for name, config in CONNECTORS.items():
            path = {"path": str(folder / name)} if config["connector.class"] in ("lake", "files-sink") else {}
            answer = service.http.post("/connectors", json={"name": name, "config": config | path})
            assert answer.status_code == 201, answer.text
        service.http.put("/connectors/crm-customers/pause")
        eventually(lambda: service.states("warehouse-payments") == ["FAILED"])
        yield service
    shutil.rmtree(folder, ignore_errors=True)
