"""Has Apache Kafka write the directories in tests/formats/golden again: `python tests/interop/make_golden.py`.

Needs Java and Maven. Kafka's index files are mostly zeros until it stops cleanly, hence the compression.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from support import small_world
from support.kafka_process import KafkaProcess

GOLDEN = Path(__file__).parents[1] / "formats" / "golden"


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for name, configured_voters in (("stopped", False), ("killed", False), ("configured-voters", True)):
            kafka = KafkaProcess(Path(scratch) / name, configured_voters=configured_voters).start()
            member = small_world.fill(kafka.bootstrap)
            if name == "killed":
                kafka.kill()
                pack(kafka.data)
            else:
                member.close()
                kafka.stop()
                pack(kafka.data)
        # The member of the killed group has nobody left to say goodbye to.
        os._exit(0)


def pack(directory: Path) -> None:
    archive = GOLDEN / f"{directory.name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_LZMA) as packed:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and "-delete" not in path.parent.name and path.name != ".lock":
                packed.write(path, path.relative_to(directory))
    print(f"{archive.name}: {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
