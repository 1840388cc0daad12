"""Compressed batches, encoded once and kept in a file for the load generator."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

from native import OUT

from odradek.protocol.batch import encode_batch
from odradek.protocol.compression import Codec
from odradek.protocol.records import Record


def zstd_batch(record_bytes: int, batch_bytes: int) -> Path:
    """As many records as fit before compression. Their text is like that of events: similar but not equal."""
    chance, now_ms = random.Random(1), int(time.time() * 1000)
    count = batch_bytes // (record_bytes + 16)
    records = [Record(value=event(chance, record_bytes), timestamp=now_ms, offset=at) for at in range(count)]
    path = OUT / f"zstd-{record_bytes}-{batch_bytes}.batch"
    path.write_bytes(encode_batch(records, codec=Codec.ZSTD))
    return path


def event(chance: random.Random, size: int) -> bytes:
    text = ""
    while len(text) < size:
        text += json.dumps({"truck": chance.randrange(500), "speed": chance.randrange(90), "at": chance.random()})
    return text[:size].encode()
