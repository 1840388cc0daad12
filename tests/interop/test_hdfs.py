"""Tables on HDFS, without Java on the side of Odradek: Hadoop's own minicluster holds them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.lake.names import divided
from odradek.lake.opening import tables_of
from odradek.streams import App, F
from odradek.testing import Embedded
from streams.broker import Topics
from support.foreign_programs import compiled, java
from support.lake_records import lake_sink, rows

sys.path.append(str(Path(__file__).parents[2] / "bench"))
from kafka_jars import hadoop

pytest.importorskip("deltalake")
PAGE = Path(__file__).parents[2] / "docs" / "streams" / "tables-in-files.md"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the name node."""
    folder = tmp_path_factory.mktemp("hdfs")
    jars = hadoop()
    command = java("SmallCluster", str(folder / "data"), classpath=[compiled("hdfs", jars), *jars])
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder
        ) as cluster,
    ):
        try:
            port = next((line.split()[1] for line in cluster.stdout if line.startswith("port ")), None)
            assert port is not None, (folder / "log").read_text()[-3000:]
            yield f"hdfs://127.0.0.1:{port}"
        finally:
            cluster.kill()


def ids(path: str, column: str) -> list[object]:
    folder, table = divided(path)
    return sorted(tables_of(folder, "delta", [], {}).table(table).rows()[column].to_pylist())


def test_sink_writes_each_record_once_though_the_group_did_not_commit(hdfs: str) -> None:
    for committed, begin, end in ((None, 0, 10), (10, 10, 20), (10, 10, 24)):  # the second flush is repeated
        sink = lake_sink(f"{hdfs}/sink", "delta", committed=committed, partition_fields=["parity"])
        sink.write(rows(begin, end))
        sink.flush(now=True)
    assert ids(f"{hdfs}/sink/t", "n") == list(range(24))


def test_recipes_of_the_page_write_each_row_once(hdfs: str, spark, tmp_path: Path) -> None:
    [recipe] = re.findall(r"^```python on hdfs\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    recipe = recipe.replace("hdfs://namenode:8020", hdfs)
    with Embedded() as broker:
        topics = Topics(broker.bootstrap_servers)
        for number in (1, 2):
            topics.send("orders", {"id": str(number), "at": f"2026-11-1{number}T12:00:00Z"})
            app = App("shop", broker.bootstrap_servers, state_dir=str(tmp_path / "state"))
            orders = app.stream("orders", schema="id string, at timestamp", time="at")
            exec(recipe, {"daily": orders.with_columns(day=F.to_date("at"))})  # code of the page
            app.start(session=spark, trigger_available_now=True).stop()
    assert ids(f"{hdfs}/lake/orders_delta", "id") == ["1", "2"]
