"""Writing rendered files."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

import pytest

from configurator.content import Library
from configurator.errors import ConfiguratorError
from configurator.render import RenderedFile, fingerprint, write
from configurator.resolve import resolve

MADE = "# Made by configurator 0\n"


def test_files_are_written_with_their_mode(tmp_path: Path) -> None:
    paths = write(
        [RenderedFile("a/b.sh", MADE, True), RenderedFile("c.md", MADE)], tmp_path / "out"
    )
    assert [str(p.relative_to(tmp_path)) for p in paths] == ["out/a/b.sh", "out/c.md"]
    assert os.access(paths[0], os.X_OK)
    assert not os.access(paths[1], os.X_OK)
    assert paths[0].read_text() == MADE


def test_our_files_are_replaced_and_others_are_not(tmp_path: Path) -> None:
    write([RenderedFile("a", MADE + "old")], tmp_path)
    write([RenderedFile("a", MADE + "new")], tmp_path)
    assert (tmp_path / "a").read_text() == MADE + "new"
    (tmp_path / "b").write_text("somebody's own work")
    with pytest.raises(ConfiguratorError, match="RND002"):
        write([RenderedFile("a", MADE + "newer"), RenderedFile("b", MADE)], tmp_path)
    assert (tmp_path / "a").read_text() == MADE + "new"
    assert (tmp_path / "b").read_text() == "somebody's own work"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfiguratorError, match="RND003"):
        write([RenderedFile("a", MADE)], tmp_path / "file" / "below")


def test_a_link_laid_for_the_unfinished_file_is_not_followed(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("somebody's own work")
    out = tmp_path / "out"
    out.mkdir()
    (out / ".a.sh.partial").symlink_to(mine)
    write([RenderedFile("a.sh", MADE, True)], out)
    assert mine.read_text() == "somebody's own work"
    assert (out / "a.sh").stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in out.iterdir()) == [".a.sh.partial", "a.sh"]


@pytest.mark.parametrize("kind", ["link to nothing", "folder", "pipe"])
def test_what_is_no_file_is_in_the_way(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "b"
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path / "nothing")
    with pytest.raises(ConfiguratorError, match="RND002"):
        write([RenderedFile("a", MADE), RenderedFile("b", MADE)], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert place.is_symlink() == (kind == "link to nothing")


@pytest.mark.parametrize("is_link", [False, True])
def test_a_file_where_a_folder_is_needed_is_seen_before_anything_is_written(
    tmp_path: Path, is_link: bool
) -> None:
    place = tmp_path / "probe"
    if is_link:
        place.symlink_to(tmp_path / "nothing")
    else:
        place.write_text("")
    files = [RenderedFile(name, MADE) for name in ("a", "new/a", "probe/below/b.py")]
    with pytest.raises(ConfiguratorError, match=r"RND003.*probe: Not a directory"):
        write(files, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["probe"]


def test_a_folder_that_takes_no_file_is_seen_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(dir: Path) -> io.BytesIO:
        if dir.name == "b":
            raise OSError(28, "No space left on device")
        return io.BytesIO()

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(ConfiguratorError, match="RND003"):
        write([RenderedFile("a", MADE), RenderedFile("b/b", MADE)], tmp_path)
    assert not (tmp_path / "a").exists()


def test_an_unfinished_file_is_removed(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write([RenderedFile("a", "\ud800")], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_probe_in_any_folder_stands_alone(tmp_path: Path) -> None:
    file = RenderedFile("host0/probe/ours.py", MADE)
    write([file], tmp_path)
    (tmp_path / "host0" / "probe" / "torch.py").write_text("")
    with pytest.raises(ConfiguratorError, match=r"RND002.*host0/probe/torch\.py"):
        write([file], tmp_path)


def test_the_fingerprint_follows_what_is_launched(tmp_path: Path) -> None:
    library = Library()

    def of(extra: str) -> str:
        path = tmp_path / "p.yaml"
        path.write_text(
            "apiVersion: configurator/v1\nkind: Deployment\nname: same\n"
            f"extends: ling-3.0-flash-spark\n{extra}"
        )
        return fingerprint(resolve(*library.profile(str(path)), library))

    assert of("") == of("description: other words\n")
    assert of("") != of("serving: {port: 31000}\n")
    assert of("") != of("extra: {env: {HUMMING_COMPILER: nvcc}}\n")
