import stat
from pathlib import Path

import pytest

from normscope.errors import ExportError
from normscope.files import write_atomically


def test_a_file_is_written_whole_with_the_folders_above_it(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b.txt"
    write_atomically(target, b"one")
    write_atomically(target, b"two")
    assert target.read_bytes() == b"two"
    assert [p.name for p in target.parent.iterdir()] == ["b.txt"]


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"")
    target.chmod(0o640)
    write_atomically(target, b"x")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_folder_that_is_a_file_is_an_export_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ExportError, match="can't be written"):
        write_atomically(tmp_path / "file" / "x", b"data")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
