"""What the nodes of a cluster hold when all is quiet: the same metadata and the same logs on every node."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from odradek.sim.history import Violation
from odradek.sim.keyed import Deletions, check_compacted, is_compacted, is_transactional
from odradek.sim.on_disk import StoredLog, stored_logs
from odradek.sim.truth import Truth


def not_yet_quiet(truth: Truth) -> str | None:
    """What is still missing, or None: V1 leaders, V3 full ISRs, V4 metadata, V5 ends of transactions, R3 equal logs."""
    image = truth.image()
    running = truth.running()
    if image is None or not truth.is_whole():
        behind = [
            f"{name}-{partition.index} (replicas {partition.replicas}, ISR {partition.isr}, leader {partition.leader})"
            for name, _, partition in truth.partitions()
            if len(partition.isr) < len(partition.replicas)
        ]
        return f"V3 replicas are not in sync: {', '.join(behind) or 'not all nodes have started'}"
    leaderless = [f"{name}-{partition.index}" for name, _, partition in truth.partitions() if partition.leader < 0]
    if leaderless:
        return f"V1 {leaderless} have no leader"
    ends: dict[tuple[bytes, int], tuple[int, int]] = {}
    for each in running:
        if each.quorum.feed.image.offset != image.offset:
            return f"V4 node {each.number} knows the metadata up to {each.quorum.feed.image.offset} of {image.offset}"
        for partition in each.replicas():
            found = (partition.high_watermark, partition.log.log_end_offset)
            known = ends.setdefault((partition.topic_id, partition.index), (found[1], found[1]))
            if partition.last_stable_offset != partition.high_watermark:
                return (
                    f"V5 {partition} of node {each.number} has an open transaction: it is stable up to "
                    f"{partition.last_stable_offset} of {partition.high_watermark}"
                )
            if found != known:
                return f"V3 {partition} of node {each.number} has (high watermark, end) {found}, not {known}"
        if each.loads_transactions():
            return f"V5 node {each.number} is still loading transactions"
        unended = [
            f"{transaction.transactional_id} is {transaction.state.value}"
            for shard in each.transaction_shards()
            for transaction in shard.transactions.newest.values()
            if not transaction.state.is_idle
        ]
        if unended:
            return f"V5 transactions have not ended: {', '.join(unended)}, at node {each.number}"
    return None


def check_images(truth: Truth) -> None:
    """Q11: at the same offset, the same image."""
    running = truth.running()
    first = running[0].quorum.feed.image
    for each in running[1:]:
        image = each.quorum.feed.image
        for part in ("brokers", "topics", "configs", "features", "next_producer_id"):
            if getattr(image, part) != getattr(first, part):
                raise Violation(f"Q11 nodes {running[0].number} and {each.number} disagree on {part} at {image.offset}")


def log_starts(truth: Truth) -> dict[str, int]:
    """By directory: the highest log start offset among the replicas."""
    starts: dict[str, int] = {}
    for each in truth.running():
        for partition in each.replicas():
            directory = str(partition)
            starts[directory] = max(starts.get(directory, 0), partition.log.log_start_offset)
    return starts


def check_replica_logs(
    files_by_node: Mapping[str, dict[str, bytes]],
    starts: Mapping[str, int],
    deletions: Deletions = Deletions.STAY,
    deleted_at: Mapping[str, Mapping[bytes, int]] = {},
    may_lose: Collection[str] = (),
) -> None:
    """R3, checked again from the disks: where two replicas have the same offset, they have the same batch.

    In a compacted topic they have the same record, and the same latest record of each key.

    Deleted records that are still on a disk are not compared. `deleted_at`: by directory and key, the last deletion.
    `may_lose`: where a record may have been replaced by one that all replicas have lost since.
    """
    known: dict[str, tuple[str, StoredLog]] = {}
    for name, files in files_by_node.items():
        for directory, log in stored_logs(files).items():
            other_name, other = known.setdefault(directory, (name, log))
            if is_compacted(directory):
                logs = {other_name: other, name: log}
                start, keys_deleted_at = starts.get(directory, 0), deleted_at.get(directory, {})
                safe = directory not in may_lose and not is_transactional(directory)
                _check_compacted_logs(directory, logs, start, deletions, keys_deleted_at, safe=safe)
                continue
            present = {batch.base_offset: (batch.crc, batch.leader_epoch) for batch in other.batches}
            for batch in log.batches:
                found = (batch.crc, batch.leader_epoch)
                is_alive = batch.last_offset >= starts.get(directory, 0)
                if is_alive and present.get(batch.base_offset, found) != found:
                    raise Violation(f"R3 {directory} at {batch.base_offset} differs between {other_name} and {name}")


def _check_compacted_logs(
    directory: str,
    logs: Mapping[str, StoredLog],
    start: int,
    deletions: Deletions,
    deleted_at: Mapping[bytes, int],
    *,
    safe: bool,
) -> None:
    contents = {
        name: {offset: told for offset, told in log.content().items() if offset >= start} for name, log in logs.items()
    }
    for name, content in contents.items():
        for other, others in contents.items():
            # A new replica may still be copying. Where records may be lost, none has to have the latest one.
            end = logs[name].end if safe else 0
            where = f"{directory} of {name}, compared to {other},"
            check_compacted(where, others, content, deletions, end=end, deleted_at=deleted_at)
