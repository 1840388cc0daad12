"""The results of Kafka's and Debezium's transforms, which tests/connect/test_transforms.py compares with ours."""

from __future__ import annotations

import json
import os
import subprocess

from connect.transform_cases import GOLDEN, asked, cases
from support.foreign_programs import compiled, java
from support.kafka_tools import kafka_jars

WRITE = "ODRADEK_WRITE_GOLDEN"


def test_the_recorded_results_are_those_of_kafka() -> None:
    classpath = [kafka_jars.connect(), kafka_jars.debezium()]
    command = java("TransformOracle", classpath=[compiled("connect", classpath), *classpath])
    lines = "".join(f"{json.dumps(asked(case))}\n" for case in cases())
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=240)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    results = {case.name: answer for case, answer in zip(cases(), answers, strict=True)}
    if os.environ.get(WRITE):
        GOLDEN.write_text("".join(f"{json.dumps([name, answer])}\n" for name, answer in results.items()))
    recorded = dict(json.loads(line) for line in GOLDEN.read_text().splitlines())
    assert len(recorded) > 300
    assert {name: answer.get("record", "error") for name, answer in results.items()} == {
        name: answer.get("record", "error") for name, answer in recorded.items()
    }
