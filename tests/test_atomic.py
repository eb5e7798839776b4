"""Files are written whole or not at all, reach the disk, go through links, and leave nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foveal import atomic
from foveal.atomic import beside, expect_folder, folder_for, move_folder, write_atomic
from foveal.errors import FovealError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_file_is_there_and_nothing_beside_it(tmp_path):
    write_atomic(tmp_path / "a" / "b" / "file", b"one")
    write_atomic(tmp_path / "a" / "b" / "file", b"two")
    assert (tmp_path / "a" / "b" / "file").read_bytes() == b"two"
    assert names(tmp_path / "a" / "b") == ["file"]


def test_file_and_folder_are_on_the_disk_before_and_after_the_name_is_taken(tmp_path, monkeypatch):
    """A power cut after the renaming must not find an empty file under the name."""
    happened = []
    fsync, replace = os.fsync, Path.replace

    def synced(handle):
        happened.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        fsync(handle)

    def replaced(self, target):
        happened.append("replace")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    write_atomic(tmp_path / "file", b"one")
    assert happened == [f".file.{os.getpid()}.part", "replace", tmp_path.name]


def test_a_file_system_that_cannot_be_asked_is_no_reason_to_fail(tmp_path, monkeypatch):
    def refused(handle):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refused)
    write_atomic(tmp_path / "file", b"one")
    assert (tmp_path / "file").read_bytes() == b"one"


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_written(tmp_path, there):
    target, link = tmp_path / "disk" / "target", tmp_path / "link"
    target.parent.mkdir()
    if there:
        target.write_bytes(b"old")
    link.symlink_to(Path("disk") / "target")
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert names(target.parent) == ["target"]


def test_what_goes_wrong_leaves_the_old_file(tmp_path):
    write_atomic(tmp_path / "file", b"old")

    def interrupted():
        with beside(tmp_path / "file") as part:
            part.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_half_files_of_dead_processes_are_removed_and_those_of_living_ones_are_not(tmp_path):
    left = tmp_path / f".file[1].{dead()}.part"
    others = [
        tmp_path / f".file[1].{os.getppid()}.part",
        tmp_path / f".other.{dead()}.part",
        tmp_path / ".file[1].x.part",
        tmp_path / "file[1].part",
    ]
    for path in (left, *others):
        path.write_bytes(b"half")
    write_atomic(tmp_path / "file[1]", b"whole")
    assert not left.exists()
    assert all(path.exists() for path in others)


@pytest.mark.parametrize("name", ["", "folder", "folder/file/below"])
def test_a_name_that_cannot_be_written_is_one_line(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"")
    with pytest.raises(FovealError, match=r"^cannot write .*; choose another name$"):
        write_atomic(tmp_path / name, b"one")
    assert names(tmp_path) == ["folder"]


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    def full(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(FovealError, match="No space left on device"):
        write_atomic(tmp_path / "file", b"one")
    assert names(tmp_path) == []


def test_a_folder_is_tried_before_hours_of_work(tmp_path):
    expect_folder(tmp_path / "new" / "one")
    assert names(tmp_path / "new" / "one") == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FovealError, match="cannot write"):
        expect_folder(tmp_path / "file")


def test_folders_that_were_made_for_nothing_are_gone_again(tmp_path):
    with pytest.raises(ZeroDivisionError), folder_for(tmp_path / "a" / "b"):
        raise ZeroDivisionError
    assert names(tmp_path) == []

    def fails_late():
        with folder_for(tmp_path / "a" / "b"):
            (tmp_path / "a" / "kept").write_bytes(b"")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails_late()
    assert names(tmp_path / "a") == ["kept"]
    (tmp_path / "mine").mkdir()
    with pytest.raises(ZeroDivisionError), folder_for(tmp_path / "mine"):
        raise ZeroDivisionError
    assert (tmp_path / "mine").is_dir(), "which was there before"


def test_a_number_that_no_process_has_is_dead():
    assert atomic._alive(os.getpid())
    assert not atomic._alive(dead())
    assert atomic._alive(10**30), "not known to be dead"


def test_a_folder_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    made, path = tmp_path / "made", tmp_path / "path"
    (made / "inside").mkdir(parents=True)
    (made / "inside/file").write_bytes(b"x")
    seen, fsync = [], os.fsync

    def synced(handle):
        seen.append((os.path.realpath(f"/proc/self/fd/{handle}"), path.exists()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    move_folder(made, path)
    assert (path / "inside/file").read_bytes() == b"x"
    assert sorted(seen[:-1]) == [(str(one), False) for one in (made, made / "inside", made / "inside/file")]
    assert seen[-1] == (str(tmp_path), True)
