from random import Random

import pytest

from odradek.base.invariants import InvariantBroken
from odradek.base.ports import Region
from odradek.sim.disk import SimDisk
from odradek.sim.inode import DiskKnobs
from odradek.sim.loop import PowerCut


def _disk(seed=1, **knobs):
    return SimDisk(Random(seed), DiskKnobs(**knobs))


def _create_synced(mounted, path, content=b""):
    file = mounted.open(path, create=True)
    file.pwrite(content, 0)
    file.sync()
    mounted.sync_dir(path.rpartition("/")[0])
    return file


def test_what_was_synced_survives_and_the_rest_may_not():
    disk = _disk(survival=0.0)
    file = _create_synced(disk.mount(), "log", b"durable")
    file.pwrite(b" and lost", 7)
    assert file.pread(100, 0) == b"durable and lost"
    disk.power_cut()
    assert disk.mount().read("log") == b"durable"


def test_any_subset_of_sectors_may_survive():
    outcomes = set()
    for seed in range(300):
        disk = _disk(seed, sector_bytes=4)
        file = _create_synced(disk.mount(), "log")
        for position in range(0, 12, 4):
            file.pwrite(b"abcd", position)
        disk.power_cut()
        outcomes.add(bytes(disk.mount().read("log")))
    whole, hole = b"abcd", bytes(4)
    assert {b"", whole, hole + whole, whole + hole + whole, hole + hole + whole, whole * 3} <= outcomes
    assert all(
        piece in (b"", whole, hole) for content in outcomes for piece in (content[:4], content[4:8], content[8:12])
    )


def test_two_writes_to_a_sector_survive_in_order():
    outcomes = set()
    for seed in range(200):
        disk = _disk(seed)
        file = _create_synced(disk.mount(), "log", b"....")
        file.pwrite(b"1", 0)
        file.pwrite(b"2", 1)
        disk.power_cut()
        outcomes.add(bytes(disk.mount().read("log")))
    assert outcomes == {b"....", b"1...", b"12.."}


def test_kill_keeps_the_page_cache():
    disk = _disk(survival=0.0)
    disk.mount().open("log", create=True).pwrite(b"cached", 0)
    disk.kill()
    assert disk.mount().read("log") == b"cached"


def test_a_synced_file_without_a_synced_name_may_vanish():
    disk = _disk(survival=0.0)
    mounted = disk.mount()
    file = mounted.open("log", create=True)
    file.pwrite(b"x", 0)
    file.sync()
    disk.power_cut()
    assert not disk.mount().exists("log")


def test_an_unsynced_rename_is_whole_or_undone():
    outcomes = set()
    for seed in range(50):
        disk = _disk(seed)
        mounted = disk.mount()
        _create_synced(mounted, "new", b"new")
        _create_synced(mounted, "old", b"old")
        mounted.rename("new", "old")
        disk.power_cut()
        outcomes.add(tuple(sorted((name, bytes(content)) for name, content in disk.files().items())))
    assert outcomes == {(("new", b"new"), ("old", b"old")), (("old", b"new"),)}


def test_a_name_does_not_survive_what_it_builds_on():
    outcomes = set()
    for seed in range(100):
        disk = _disk(seed)
        mounted = disk.mount()
        _create_synced(mounted, "a", b"old a")
        _create_synced(mounted, "b", b"old b")
        mounted.rename("b", "a")
        file = mounted.open("b", create=True)
        file.pwrite(b"new b", 0)
        file.sync()
        disk.power_cut()
        files = disk.files()
        outcomes.add((files["a"], files.get("b")))
    assert outcomes == {(b"old a", b"old b"), (b"old b", None), (b"old b", b"new b")}


@pytest.mark.parametrize("survival", [0.0, 1.0])
def test_sync_dir_brings_what_it_builds_on(survival):
    disk = _disk(survival=survival)
    mounted = disk.mount()
    mounted.make_dir("a")
    mounted.make_dir("b")
    mounted.sync_dir("")
    _ = mounted.open("a/file", create=True)
    mounted.rename("a/file", "b/file")
    mounted.sync_dir("b")
    disk.power_cut()
    assert sorted(disk.files()) == ["b/file"]


def test_replace_is_atomic_and_durable():
    disk = _disk(survival=0.0)
    mounted = disk.mount()
    mounted.replace("checkpoint", b"one")
    mounted.replace("checkpoint", b"two")
    disk.power_cut()
    assert disk.mount().read("checkpoint") == b"two"


def test_replace_cut_anywhere_leaves_the_old_or_the_new():
    outcomes = set()
    for seed in range(100):
        cut_at = seed % 7
        disk = _disk(seed)
        disk.mount().replace("checkpoint", b"old")
        disk.kill()
        mounted = disk.mount()

        def cut(_what, disk=disk, mounted=mounted, cut_at=cut_at):
            if mounted.operations > cut_at:
                disk.power_cut()

        mounted.before_change = cut
        try:
            mounted.replace("checkpoint", b"new")
        except PowerCut:
            outcomes.add((cut_at, disk.mount().read("checkpoint")))
    assert {content for _, content in outcomes} == {b"old", b"new"}
    assert (0, b"old") in outcomes


def test_handles_die_with_their_incarnation():
    disk = _disk()
    file = _create_synced(disk.mount(), "log", b"x")
    disk.power_cut()
    disk.mount()
    with pytest.raises(PowerCut):
        file.pwrite(b"ghost", 0)


def test_a_failed_sync_loses_what_the_next_one_claims():
    disk = _disk(survival=0.0)
    file = _create_synced(disk.mount(), "log", b"safe")
    file.pwrite(b"lost", 4)
    disk.knobs = DiskKnobs(survival=0.0, sync_error=1.0)
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    disk.knobs = DiskKnobs(survival=0.0)
    file.sync()
    disk.power_cut()
    assert disk.mount().read("log") == b"safe"


def test_names_whose_sync_failed_may_be_lost():
    disk = _disk(survival=0.0)
    mounted = disk.mount()
    mounted.open("log", create=True)
    disk.knobs = DiskKnobs(survival=0.0, sync_error=1.0)
    with pytest.raises(OSError, match="Input/output error"):
        mounted.sync_dir("")
    assert (disk.disturbed, disk.sync_failed, disk.faults["sync error"]) == (True, True, 1)
    disk.power_cut()
    assert not disk.mount().exists("log")


def test_short_writes_say_how_much_was_written():
    disk = _disk(short_write=1.0)
    file = disk.mount().open("log", create=True)
    written = file.pwrite(b"0123456789", 0)
    assert 0 < written < 10
    assert file.pread(100, 0) == b"0123456789"[:written]


def test_a_closed_or_removed_file_is_usable_only_while_pinned():
    mounted = _disk().mount()
    file = _create_synced(mounted, "log", b"x")
    region = Region(file, 0, 1)
    file.close()
    mounted.remove("log")
    assert region.read() == b"x"
    region.release()
    with pytest.raises(InvariantBroken):
        file.pread(1, 0)
    removed = _create_synced(mounted, "log", b"x")
    mounted.remove("log")
    with pytest.raises(FileNotFoundError):
        removed.sync()


def test_open_files_follow_renames():
    mounted = _disk().mount()
    mounted.make_dir("topic-0")
    file = mounted.open("topic-0/log", create=True)
    mounted.rename("topic-0", "topic-0.deleted")
    file.pwrite(b"x", 0)
    assert file.path == "topic-0.deleted/log"
    assert mounted.read("topic-0.deleted/log") == b"x"


def test_truncation_and_holes():
    file = _disk().mount().open("log", create=True)
    file.pwrite(b"abc", 5)
    assert file.pread(100, 0) == bytes(5) + b"abc"
    file.truncate(6)
    assert (file.size(), file.pread(100, 4)) == (6, b"\0a")
