"""`odradek log`: reads segment files without a broker. Kafka's files have the same format."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from odradek.cli.groups import Group
from odradek.cli.output import output_option, print_rows
from odradek.cli.record_text import text_of
from odradek.cli.remote import FAILED, NOT_FOUND, fail
from odradek.cli.segments import Finding, batches_of, segments_of, verify_partition
from odradek.protocol.batch import BatchHeader, iter_records
from odradek.protocol.malformed import MalformedRecords
from odradek.protocol.txn_marker import read_marker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@click.group("log", cls=Group)
def command() -> None:
    """Dump and verify segment files."""


@command.command("dump")
@output_option
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--records", is_flag=True, help="Print each record as a JSON line for `odradek produce --input jsonl`.")
def dump(output: str, path: Path, records: bool) -> None:
    """Show the batches of a segment, or of all segments of a partition's directory."""
    segments = _segments(path)
    try:
        if records:
            for segment in segments:
                for line in _record_lines(segment):
                    click.echo(line)
            return
        rows = [_row(segment, *batch) for segment in segments for batch in batches_of(segment)]
    except MalformedRecords as broken:
        fail(str(broken))
    print_rows(rows, output, nothing="no batches")


@command.command("verify")
@output_option
@click.argument("path", type=click.Path(path_type=Path))
def verify(output: str, path: Path) -> None:
    """Check a partition's files, or all partitions in a data directory: checksums, offsets, indexes.

    Exits with 1 if there are problems. Stop the broker first: a batch that it is writing looks damaged.
    """
    partitions = sorted({segment.parent for segment in path.rglob("*.log")}) if path.is_dir() else [path]
    if not any(segments_of(partition) for partition in partitions):
        _segments(path)
    findings: list[Finding] = []
    batches = 0
    with click.progressbar(partitions, label="verifying", file=sys.stderr, hidden=len(partitions) < 2) as all_of_them:
        for partition in all_of_them:
            count, found = verify_partition(partition)
            batches += count
            findings += found
    rows = [
        {"file": str(finding.file), "position": finding.position, "problem": finding.problem} for finding in findings
    ]
    if output != "table" or rows:
        print_rows(rows, output, nothing="")
    click.echo(f"{len(partitions)} partitions, {batches} batches, {len(findings)} problems", err=True)
    if findings:
        raise SystemExit(FAILED)


def _segments(path: Path) -> list[Path]:
    segments = segments_of(path)
    if not segments:
        fail(f"{path} is not a segment file (such as 00000000000000000000.log) or a directory of them", NOT_FOUND)
    return segments


def _row(segment: Path, position: int, header: BatchHeader, data: bytes) -> dict[str, object]:
    return {
        "segment": segment.stem.lstrip("0") or "0",
        "position": position,
        "offset": header.base_offset,
        "last": header.last_offset,
        "records": header.records_count,
        "bytes": header.size_bytes,
        "codec": CODECS[header.codec] if header.codec < len(CODECS) else header.codec,
        "epoch": header.leader_epoch,
        "producer": header.producer_id if header.producer_id >= 0 else None,
        "sequence": header.base_sequence if header.base_sequence >= 0 else None,
        "timestamp": header.max_timestamp,
        "control": header.is_control,
        "transaction": _transaction(header, data),
    }


def _transaction(header: BatchHeader, data: bytes) -> str | None:
    if not header.is_transactional:
        return None
    marker = read_marker(header, memoryview(data)) if header.is_control else None
    if marker is None:
        return None if header.is_control else "part"
    return "commit" if marker.committed else "abort"


def _record_lines(segment: Path) -> Iterator[str]:
    for _, header, data in batches_of(segment):
        if header.is_control:
            continue
        for record in iter_records(data):
            yield json.dumps(
                {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": text_of(record.key),
                    "value": text_of(record.value),
                    "headers": [[name, text_of(value)] for name, value in record.headers],
                }
            )
