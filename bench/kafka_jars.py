"""From Maven, once, into bench/out: Apache Kafka, the Kafka connectors of Spark and Storm, tools for interop tests."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

OUT = Path(__file__).resolve().parent / "out" / "kafka"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>{artifact}</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
DEPENDENCY = """
    <dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>{3}</dependency>"""
ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
BROKER, TOOLS = "kafka_2.13", "kafka-tools"
NEWEST = "[4.0,5.0)"
# Spark's own Kafka connector: the newest version of each part in Maven. Without dependencies: the poms name another
# repository, and PySpark's jars include the rest.
CONNECTOR = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
STORM = (
    ("org.apache.storm", "storm-kafka-client", "2.8.3"),
    ("org.apache.storm", "storm-server", "2.8.3"),
)
DEBEZIUM = ("io.debezium", "debezium-core", "3.3.1.Final")
LOG4J = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.2")
JOLOKIA = ("org.jolokia", "jolokia-agent-jvm", "2.6.0")
# Only the jars of the client: Storm has its own versions of the rest.
CLIENT_PARTS = ("kafka-clients", "lz4-java", "snappy-java", "zstd-jni")


def jars() -> Path:
    """The jars of a broker."""
    return _fetched(BROKER, OUT / "libs", os.environ.get("KAFKA_VERSION", NEWEST))


def tools() -> Path:
    """The additional jars of `kafka-dump-log` and other tools, in the broker's version."""
    return _fetched(TOOLS, OUT / "tools", version())


def spark_connector() -> list[Path]:
    dependencies = "".join(DEPENDENCY.format(*coordinates, ALONE) for coordinates in CONNECTOR)
    return sorted(_copied(CONNECTOR[0][1], OUT / "spark", dependencies).glob("*.jar"))


def storm() -> list[Path]:
    """Apache Storm with its Kafka spout and bolt, and the client of the broker's version."""
    dependencies = "".join(DEPENDENCY.format(*coordinates, "") for coordinates in STORM)
    own = sorted(_copied(STORM[0][1], OUT / "storm", dependencies).glob("*.jar"))
    return own + [jar for part in CLIENT_PARTS for jar in jars().glob(f"{part}-*.jar")]


def connect() -> Path:
    """Kafka Connect with its transforms and file connectors, in the broker's version."""
    parts = ("connect-runtime", "connect-file", "connect-json", "connect-transforms")
    dependencies = "".join(DEPENDENCY.format("org.apache.kafka", part, version(), "") for part in parts)
    # Kafka Connect changes the levels of loggers through Log4j, which its jars do not bring.
    return _copied("connect-runtime", OUT / "connect", dependencies + DEPENDENCY.format(*LOG4J, ""))


def mirror() -> Path:
    """MirrorMaker 2 with Kafka Connect, in the broker's version."""
    dependency = DEPENDENCY.format("org.apache.kafka", "connect-mirror", version(), "")
    return _copied("connect-mirror", OUT / "mirror", dependency + DEPENDENCY.format(*LOG4J, ""))


def debezium() -> Path:
    """Debezium's core, which has its transforms."""
    return _copied(DEBEZIUM[1], OUT / "debezium", DEPENDENCY.format(*DEBEZIUM, ""))


def debezium_postgres() -> Path:
    """Debezium's connector for PostgreSQL, with all that Kafka Connect does not bring."""
    coordinates = (DEBEZIUM[0], "debezium-connector-postgres", DEBEZIUM[2])
    return _copied(coordinates[1], OUT / "plugins" / "debezium-postgres", DEPENDENCY.format(*coordinates, ""))


def jolokia_agent() -> Path:
    """The agent that serves the MBeans of a JVM over HTTP."""
    dependency = DEPENDENCY.format(*JOLOKIA, f"<classifier>javaagent</classifier>{ALONE}")
    return next(_copied(JOLOKIA[1], OUT / "jolokia", dependency).glob("*.jar"))


def version() -> str:
    found = re.search(rf"{re.escape(BROKER)}-(.+)\.jar", next(jars().glob(f"{BROKER}-*.jar")).name)
    return found[1] if found else "unknown"


def _fetched(artifact: str, directory: Path, wanted: str) -> Path:
    return _copied(artifact, directory, DEPENDENCY.format("org.apache.kafka", artifact, wanted, ""))


def _copied(artifact: str, directory: Path, dependencies: str) -> Path:
    if not any(directory.glob(f"{artifact}-[0-9]*.jar")):
        directory.mkdir(parents=True, exist_ok=True)
        pom = OUT / f"{artifact}.xml"
        pom.write_text(POM.format(artifact=artifact, dependencies=dependencies))
        print(f"fetching {artifact} with Maven (once)", flush=True)
        copy = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
        subprocess.run(copy, check=True, timeout=900)
    return directory
