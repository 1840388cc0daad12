"""Has Apache Kafka write the directories in tests/formats/golden again: `python tests/interop/make_golden.py`.

Needs Java and Maven. Kafka's index files are mostly zeros until it stops cleanly, hence the compression.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import zipfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from support import small_world
from support.kafka_process import KafkaProcess

GOLDEN = Path(__file__).parents[1] / "formats" / "golden"
# As after weeks: a snapshot has taken the place of the metadata log's beginning.
SOON_AGED = {
    "metadata.log.max.snapshot.interval.ms": "20000",
    "metadata.log.segment.ms": "10000",
    "metadata.max.retention.ms": "1000",
    "internal.metadata.delete.delay.millis": "0",
}


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        make(KafkaProcess(directory / "stopped"))
        make(KafkaProcess(directory / "configured-voters", configured_voters=True))
        make(KafkaProcess(directory / "aged", config=SOON_AGED))
        make(KafkaProcess(directory / "killed"))
        # The member of the killed group has nobody left to say goodbye to.
        os._exit(0)


def make(kafka: KafkaProcess) -> None:
    kafka.start()
    member = small_world.fill(kafka.bootstrap)
    if kafka.data.name == "killed":
        kafka.kill()
    else:
        member.close()
        if kafka.data.name == "aged":
            await_age(kafka.data / "__cluster_metadata-0")
        kafka.stop()
    pack(kafka.data)


def await_age(metadata: Path) -> None:
    while (metadata / "00000000000000000000.log").exists():
        time.sleep(1)


def pack(directory: Path) -> None:
    archive = GOLDEN / f"{directory.name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as packed:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and "delete" not in str(path) and path.name != ".lock":
                packed.write(path, path.relative_to(directory))
    print(f"{archive.name}: {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
