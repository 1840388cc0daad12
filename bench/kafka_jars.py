"""Apache Kafka from Maven, downloaded once into bench/out: the broker for the bench, its tools for interop tests."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

OUT = Path(__file__).resolve().parent / "out" / "kafka"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>{artifact}</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>
  </dependencies>
</project>
"""
BROKER, TOOLS = "kafka_2.13", "kafka-tools"
NEWEST = "[4.0,5.0)"


def jars() -> Path:
    """What a broker needs."""
    return _fetched(BROKER, OUT / "libs", os.environ.get("KAFKA_VERSION", NEWEST))


def tools() -> Path:
    """What `kafka-dump-log` and the like need besides, in the broker's version."""
    return _fetched(TOOLS, OUT / "tools", version())


def version() -> str:
    found = re.search(rf"{re.escape(BROKER)}-(.+)\.jar", next(jars().glob(f"{BROKER}-*.jar")).name)
    return found[1] if found else "unknown"


def _fetched(artifact: str, directory: Path, wanted: str) -> Path:
    if not any(directory.glob(f"{artifact}-[0-9]*.jar")):
        directory.mkdir(parents=True, exist_ok=True)
        pom = OUT / f"{artifact}.xml"
        pom.write_text(POM.format(artifact=artifact, version=wanted))
        print(f"fetching {artifact} with Maven (once)", flush=True)
        copy = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
        subprocess.run(copy, check=True, timeout=900)
    return directory
