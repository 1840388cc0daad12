"""Both disks implement the port; the real one also limits its descriptors."""

from __future__ import annotations

import errno
import os
import resource
import threading

import pytest

from odradek.adapters.disk import OsDisk
from odradek.adapters.memory_disk import MemoryDisk
from odradek.base.ports import Region


@pytest.fixture(params=["os", "memory"])
def disk(request, tmp_path):
    return OsDisk(str(tmp_path)) if request.param == "os" else MemoryDisk()


def write(disk, path, data):
    file = disk.open(path, create=True)
    file.pwrite(data, 0)
    return file


def test_reads_what_was_written(disk):
    file = write(disk, "a", b"hello")
    file.pwrite(b"world", 7)
    assert file.pread(100, 0) == b"hello\0\0world"
    assert file.pread(3, 9) == b"rld"
    assert file.size() == 12
    file.truncate(4)
    assert disk.read("a") == b"hell"
    file.truncate(6)
    assert disk.read("a") == b"hell\0\0"


def test_opening_a_missing_file_is_refused(disk):
    disk.make_dir("d")
    for path in ("missing", "d/missing", "d"):
        with pytest.raises(FileNotFoundError):
            disk.open(path)


def test_names(disk):
    disk.make_dir("logs")
    write(disk, "logs/b", b"")
    write(disk, "logs/a", b"")
    assert disk.listdir("") == disk.listdir(".") == ["logs"]
    assert disk.listdir("logs") == ["a", "b"]
    assert disk.exists("logs/a")
    disk.remove("logs/a")
    assert not disk.exists("logs/a")
    disk.sync_dir("logs")
    disk.sync_dir("")
    disk.remove_tree("logs")
    assert disk.listdir("") == []


@pytest.mark.parametrize("by_the_kernel", [True, False])
def test_everything_can_be_synced_at_once(disk, monkeypatch, by_the_kernel):
    synced = []
    if not by_the_kernel:
        monkeypatch.setattr("odradek.adapters.disk._SYNCFS", None)
        monkeypatch.setattr("odradek.adapters.disk._sync_path", synced.append)
    disk.make_dir("d")
    write(disk, "d/f", b"x")
    disk.sync_all()
    if synced:
        assert [os.path.basename(path) for path in synced[-2:]] == ["f", "d"]


def test_replace_swaps_the_content_and_leaves_no_temporary_file(disk):
    disk.replace("checkpoint", b"one")
    disk.replace("checkpoint", b"two")
    assert disk.read("checkpoint") == b"two"
    assert disk.listdir("") == ["checkpoint"]


def test_a_failed_replace_on_a_full_disk_frees_its_space(tmp_path, monkeypatch):
    disk = OsDisk(str(tmp_path))
    disk.replace("checkpoint", b"one")

    def refuse(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        disk.replace("checkpoint", b"two")
    assert disk.read("checkpoint") == b"one"
    assert disk.listdir("") == ["checkpoint"]


def test_open_files_survive_a_rename_of_their_directory(disk):
    disk.make_dir("t-0")
    file = write(disk, "t-0/log", b"abc")
    disk.rename("t-0", "t-0.1-delete")
    file.pwrite(b"d", 3)
    assert file.path == "t-0.1-delete/log"
    assert disk.read("t-0.1-delete/log") == b"abcd"
    disk.rename("t-0.1-delete/log", "t-0.1-delete/log.deleted")
    assert file.pread(4, 0) == b"abcd"
    assert file.path == "t-0.1-delete/log.deleted"


def test_a_region_outlives_the_removal_of_its_file(disk):
    region = Region(write(disk, "log", b"0123456789"), 2, 5)
    disk.remove("log")
    assert region.read() == b"23456"
    region.release()


def test_files_stay_usable_while_descriptors_are_limited(tmp_path):
    disk = OsDisk(str(tmp_path), descriptors=4)
    files = [write(disk, f"f{n}", b"%d" % n) for n in range(20)]
    assert disk.open_descriptors() == 4
    for n, file in enumerate(files):
        assert file.pread(9, 0) == b"%d" % n
        file.pwrite(b"!", 2)
    assert disk.open_descriptors() == 4
    assert all(disk.read(f"f{n}")[2:] == b"!" for n in range(20))


def test_an_evicted_file_is_found_again_after_its_directory_moved(tmp_path):
    disk = OsDisk(str(tmp_path), descriptors=1)
    disk.make_dir("t-0")
    file = write(disk, "t-0/log", b"abc")
    write(disk, "other", b"")
    disk.rename("t-0", "t-1")
    assert file.pread(3, 0) == b"abc"


def test_pinned_files_are_not_evicted(tmp_path):
    disk = OsDisk(str(tmp_path), descriptors=2)
    file = write(disk, "pinned", b"abc")
    file.pin()
    fd = file.fileno()
    for n in range(10):
        write(disk, f"f{n}", b"")
    assert file.fileno() == fd
    assert os.pread(fd, 3, 0) == b"abc"
    disk.remove("pinned")
    assert file.pread(3, 0) == b"abc"
    file.unpin()
    with pytest.raises(FileNotFoundError):
        file.pread(3, 0)


def test_files_in_use_are_not_searched_for_each_opened_file(tmp_path, monkeypatch):
    """A sync pins all segments that were rolled since the last sync: there may be thousands."""
    disk = OsDisk(str(tmp_path), descriptors=4)
    looked_at = []
    evict = disk._evict
    monkeypatch.setattr(disk, "_evict", lambda capacity: looked_at.append(len(disk._open)) or evict(capacity))
    files = [write(disk, f"f{n}", b"x") for n in range(200)]
    for file in files:
        file.pin()
    assert sum(looked_at) < 10 * len(files)
    for file in files:
        file.unpin()
    for n in range(200):
        write(disk, f"g{n}", b"x")
    assert disk.open_descriptors() == 4


def test_descriptors_that_were_in_use_are_closed_later(tmp_path):
    """Sockets need the descriptors."""
    disk = OsDisk(str(tmp_path), descriptors=40)
    files = [write(disk, f"f{n}", b"x") for n in range(100)]
    for file in files:
        file.pin()
    for file in files:
        file.unpin()
    for _ in range(100):
        write(disk, "g", b"x").close()
    assert disk.open_descriptors() <= 40


def test_the_least_recently_used_file_is_closed_first(tmp_path):
    disk = OsDisk(str(tmp_path), descriptors=3)
    hot, cold, other = (write(disk, name, b"") for name in ("hot", "cold", "other"))
    for n in range(30):
        hot.pread(1, 0)
        write(disk, f"f{n}", b"")
        hot.pread(1, 0)
        assert hot.fd >= 0
    assert cold.fd < 0
    assert other.fd < 0


def test_closing_a_file_closes_its_descriptor(tmp_path):
    disk = OsDisk(str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    files = [write(disk, f"f{n}", b"x") for n in range(10)]
    disk.make_dir("d")
    write(disk, "d/f", b"")
    assert len(os.listdir("/proc/self/fd")) == before + 11
    for file in files:
        file.close()
    disk.remove_tree("d")
    assert disk.open_descriptors() == 0
    assert len(os.listdir("/proc/self/fd")) == before


def test_files_share_the_remaining_descriptors_when_sockets_take_the_others(tmp_path):
    disk = OsDisk(str(tmp_path))
    disk.make_dir("d")
    files = [write(disk, f"d/f{n}", b"%d" % n) for n in range(8)]
    files[0].pin()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):  # noqa: PT012
            while True:
                taken.append(os.dup(0))
        new = [write(disk, f"d/new{n}", b"new") for n in range(3)]
        assert [file.pread(9, 0) for file in files] == [b"%d" % n for n in range(8)]
        assert [file.pread(9, 0) for file in new] == [b"new"] * 3
        disk.sync_dir("d")
        disk.replace("checkpoint", b"whole")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)
    files[0].unpin()


def test_closing_a_file_spares_a_user_who_enters_at_the_same_time(tmp_path):
    class Door(list):
        """Empty at the first check; a user enters right after it."""

        looks = 0

        def __bool__(self) -> bool:
            self.looks += 1
            if self.looks == 1:
                self.append(None)
                return False
            return len(self) > 0

    disk = OsDisk(str(tmp_path))
    file = write(disk, "f", b"abc")
    file.users = Door()
    file.close()
    assert os.pread(file.fd, 3, 0) == b"abc"
    file.unpin()
    assert disk.open_descriptors() == 0


def test_threads_never_see_another_files_descriptor(tmp_path):
    disk = OsDisk(str(tmp_path), descriptors=2)
    files = [write(disk, f"f{n}", b"%03d" % n) for n in range(8)]
    wrong = []

    def read_around(start):
        steps = range(start, start + 1500)
        wrong.extend(n for n in steps if files[n % 8].pread(3, 0) != b"%03d" % (n % 8))

    threads = [threading.Thread(target=read_around, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert disk.open_descriptors() <= 2


def test_concurrent_replaces_of_one_file(tmp_path):
    """The file has one of the two contents, and neither call fails."""
    disk = OsDisk(str(tmp_path))
    contents = [bytes([n]) * 50_000 for n in range(2)]
    failures = []

    def replace(content):
        try:
            for _ in range(30):
                disk.replace("file", content)
        except OSError as broken:
            failures.append(broken)

    threads = [threading.Thread(target=replace, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert not disk.exists("file") or disk.read("file") in contents
    assert failures == []


def test_volume_of_a_directory_that_is_gone_raises(tmp_path):
    disk = OsDisk(str(tmp_path / "data"))
    assert disk.location == str(tmp_path / "data")
    assert disk.volume().total_bytes >= disk.volume().usable_bytes > 0
    os.rmdir(disk.location)
    with pytest.raises(FileNotFoundError):
        disk.volume()
