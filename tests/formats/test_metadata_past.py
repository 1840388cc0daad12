"""Loading Kafka's metadata log and snapshots. Unknown records are refused, and the directory is not changed."""

from __future__ import annotations

import pytest

from odradek.adapters.disk import OsDisk
from odradek.base.errors import UnusableDirectory
from odradek.base.ids import BrokerId, Offset
from odradek.log.recovery import LogOpening, open_log
from odradek.metadata.batches import metadata_batch, read_batches
from odradek.metadata.bootstrap import BrokenCheckpoint
from odradek.metadata.feed import MetadataFeed
from odradek.metadata.image import ClusterImage
from odradek.metadata.metadata_log import METADATA_LOG_CONFIG, METADATA_PARTITION, MissingBeginning, load_metadata
from odradek.node.format import decode_identity
from odradek.protocol.batch import encode_batch
from odradek.protocol.metadata_records import FeatureLevelRecord
from odradek.protocol.records import Record
from odradek.quorum.voters import Voter, VoterKey
from odradek.testing import Embedded

NOW_MS = 1_750_000_000_000
ACCESS_CONTROL_ENTRY = b"\x01\x12\x00"


def loaded(data):
    identity = decode_identity((data / "meta.properties").read_bytes())
    own = Voter(key=VoterKey(BrokerId(1), identity.directory_id))
    feed = MetadataFeed(ClusterImage(cluster_id=identity.cluster_id))
    return load_metadata(OsDisk(str(data)), feed, own, NOW_MS), feed.ahead


def snapshots(data):
    return sorted((data / "__cluster_metadata-0").glob("*.checkpoint"))


def test_first_start_writes_the_same_records_as_kafka(golden, tmp_path):
    with Embedded(data=tmp_path / "ours"):
        pass
    first = [begun(tmp_path / "ours"), begun(golden("stopped"))]
    assert first[0] == first[1] == ["LeaderChangeMessage", "KRaftVersionRecord", "VotersRecord"]
    assert len(snapshots(tmp_path / "ours")) == len(snapshots(golden("stopped"))) == 1


def begun(data):
    log = data / "__cluster_metadata-0" / "00000000000000000000.log"
    return [type(record).__name__ for record in next(read_batches(log.read_bytes())).control]


def test_older_snapshot_plus_log_gives_the_same_image_as_a_newer_snapshot(golden):
    data = golden("aged")
    with_newer, newer = loaded(data)
    snapshots(data)[-1].unlink()
    with_older, older = loaded(data)
    assert newer.offset == older.offset == with_newer.log.log_end_offset - 1
    for image in (newer, older):
        assert sorted(image.topics)[-2:] == ["stamped", "trimmed"]
    assert dict(newer.topics) == dict(older.topics)
    assert dict(newer.configs) == dict(older.configs)
    assert newer.brokers == older.brokers
    assert newer.controllers == older.controllers
    assert newer.features == older.features
    assert newer.next_producer_id == older.next_producer_id == 1000
    assert with_newer.voters.newest == with_older.voters.newest


def test_metadata_log_without_its_beginning_is_refused(golden):
    data = golden("aged")
    for snapshot in snapshots(data):
        snapshot.unlink()
    with pytest.raises(MissingBeginning, match="from offset 128"):
        loaded(data)


def test_metadata_log_that_ends_before_its_snapshot_restarts_there(golden):
    """The snapshot came from the leader, and the node crashed before it replaced the log."""
    data = golden("stopped")
    newest = snapshots(golden("aged"))[-1]
    newest.rename(snapshots(data)[0].parent / newest.name)
    metadata, image = loaded(data)
    assert metadata.log.log_start_offset == metadata.log.log_end_offset == image.offset + 1
    assert metadata.snapshots[-1].end_offset == image.offset + 1


def test_longer_metadata_log_that_diverged_from_its_snapshot_restarts_there(golden):
    """This snapshot also came from the leader. Its epoch has other committed records than the log."""
    data = golden("aged")
    newest = snapshots(data)[-1]
    end_offset, epoch = map(int, newest.stem.split("-"))
    newest.rename(newest.with_stem(f"{end_offset:020d}-{epoch + 5:010d}"))
    metadata, image = loaded(data)
    assert metadata.log.log_start_offset == metadata.log.log_end_offset == end_offset == image.offset + 1


@pytest.mark.parametrize("cut", [lambda data: data[:-80], lambda data: data[:100] + b"?" + data[101:]])
def test_broken_metadata_snapshot_is_refused(golden, cut):
    data = golden("aged")
    newest = snapshots(data)[-1]
    newest.chmod(0o600)
    newest.write_bytes(cut(newest.read_bytes()))
    with pytest.raises(BrokenCheckpoint, match=newest.name):
        loaded(data)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (metadata_batch([FeatureLevelRecord(name="metadata.version", feature_level=31)], NOW_MS), "31"),
        (metadata_batch([FeatureLevelRecord(name="wonder.version", feature_level=1)], NOW_MS), "wonder"),
        (encode_batch([Record(value=ACCESS_CONTROL_ENTRY, timestamp=NOW_MS)]), "type 18"),
    ],
)
def test_unknown_metadata_records_are_refused_and_nothing_is_written(golden, batch, reason):
    data = golden("stopped")
    opening = LogOpening(topic_partition=METADATA_PARTITION, config=METADATA_LOG_CONFIG, wall_ms=NOW_MS)
    log = open_log(OsDisk(str(data)), opening)
    log.appending.trusted(batch, 1, NOW_MS)
    log.close()
    refuses(data, reason)


def test_directory_with_several_configured_voters_is_refused(golden):
    data = golden("configured-voters")
    election = data / "__cluster_metadata-0" / "quorum-state"
    election.write_text(election.read_text().replace('{"voterId":1}', '{"voterId":1},{"voterId":2}'))
    refuses(data, r"voters are \[1, 2\]")


def test_formatted_directory_without_quorum_state_is_refused(golden):
    data = golden("configured-voters")
    (data / "__cluster_metadata-0" / "quorum-state").unlink()
    refuses(data, "names no voters")


def refuses(data, reason):
    before = contents(data)
    with pytest.raises(UnusableDirectory, match=reason), Embedded(data=data):
        pass
    assert contents(data) == before


def contents(data):
    """Without producer snapshots: opening a log removes outdated ones."""
    files = [path for path in data.rglob("*") if path.is_file() and path.suffix != ".snapshot" and path.name != ".lock"]
    return {path: path.read_bytes() for path in files}


def test_voters_of_the_first_checkpoint_apply_after_the_log_is_truncated(tmp_path):
    with Embedded(data=tmp_path):
        pass
    metadata, _ = loaded(tmp_path)
    assert metadata.voters_in_log
    assert metadata.voters.truncated(Offset(0))
    assert [key.voter_id for key in metadata.voters.newest.keys] == [1]
