"""A standalone Spark cluster from the pip package alone: a master and workers, each a process, all on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path
from typing import Self

import pyspark

from odradek.spark.java import find_java
from support.broker_process import free_port
from support.quick_java import QUICK_JAVA
from support.waiting import wait_until

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.1
SPARK_HOME = Path(pyspark.__file__).parent


class SparkCluster:
    def __init__(self, place: Path, workers: int) -> None:
        self._place = place
        self._port, self._page = free_port(), free_port()
        self._workers = [place / f"worker-{number}" for number in range(1, workers + 1)]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        ports = ["--port", str(self._port), "--webui-port", str(self._page)]
        self._start("master", "org.apache.spark.deploy.master.Master", *ports)
        for work in self._workers:
            room = ["--cores", "1", "--memory", "2g", "--webui-port", "0", "--work-dir", str(work)]
            self._start(work.name, "org.apache.spark.deploy.worker.Worker", *room, self.url)
        wait_until(self._is_whole, "all workers have registered", within_s=START_TIMEOUT_S, every_s=POLL_S)
        return self

    def _is_whole(self) -> bool:
        assert all(process.poll() is None for process in self._processes), "a process of the cluster did not start"
        return self._alive_workers() == len(self._workers)

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(STOP_TIMEOUT_S)

    def finished_tasks(self) -> dict[str, int]:
        """The number of finished tasks by worker, from the logs of its executors."""
        return {
            work.name: sum(log.read_text().count("Finished task") for log in work.glob("app-*/*/stderr"))
            for work in self._workers
        }

    def _start(self, name: str, *command: str) -> None:
        environment = {
            "JAVA_HOME": str(find_java()),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with (self._place / f"{name}.out").open("wb") as out:
            self._processes.append(
                subprocess.Popen(
                    [SPARK_HOME / "bin" / "spark-class", command[0], "--host", "127.0.0.1", *command[1:]],
                    env=os.environ | QUICK_JAVA | environment,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            )

    def _alive_workers(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except OSError:  # the master does not listen yet
            return 0
