"""docs/connect/postgres.md: its config and its SQL, with a real PostgreSQL."""

from __future__ import annotations

import json
import re

import psycopg
import yaml

from odradek.testing import Embedded
from support.committed_records import committed_records
from support.connect_service import connect_service, eventually
from support.postgres import Postgres

from .pages import DOCS

PAGE = (DOCS / "connect" / "postgres.md").read_text()
TOPIC = "shop.public.orders"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def test_the_config_captures_and_the_signals_read_rows_again() -> None:
    (text,), (table, signals) = blocks("yaml"), blocks("sql")
    wanted = yaml.safe_load(text)
    with (
        Postgres.started() as server,
        Embedded() as broker,
        connect_service(broker.bootstrap_servers) as service,
        psycopg.connect(server.new_database(), autocommit=True) as database,
    ):
        database.execute(table)
        database.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        database.execute("INSERT INTO orders VALUES (1), (2)")
        here = {"database.port": str(server.port), "database.dbname": database.info.dbname}
        config = {name: str(value) for name, value in (wanted["config"] | here).items()}
        del config["database.password"]  # the test's server asks for none
        answer = service.http.post("/connectors", json={"name": wanted["name"], "config": config})
        assert answer.status_code == 201, answer.text

        def snapshots() -> list[str]:
            records = committed_records(broker.bootstrap_servers, TOPIC)
            return [json.loads(record.value())["source"]["snapshot"] for record in records]

        eventually(lambda: len(snapshots()) == 2, lambda: service.http.get("/connectors/shop/status").text)
        for statement in signals.strip().split(";\n"):
            database.execute(statement)
        eventually(lambda: snapshots()[2:] == ["incremental"] * 2, snapshots)
        lines = service.http.get("/connectors/shop/logs").text
        assert "unknown type" not in lines
        assert "is wrong" not in lines
