"""Versions of git checkouts, virtual environments and packages without metadata."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from configurator.engine.checkout import tagged_version
from configurator.engine.extract import extract
from configurator.engine.sources import SourceTree
from configurator.errors import ConfiguratorError

Tree = Callable[..., Path]
HEAD, OTHER, OBJECT = "a" * 40, "b" * 40, "c" * 40


def git(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


PACKED = f"# pack-refs\n{OTHER} refs/tags/v0.5.22\n{OBJECT} refs/tags/v0.5.23\n^{HEAD}\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"HEAD": HEAD, "packed-refs": PACKED}, ("0.5.23", "0.5.23")),
        ({"HEAD": OTHER, "packed-refs": PACKED}, ("0.5.22", "0.5.23")),
        ({"HEAD": "d" * 40, "packed-refs": PACKED}, (None, "0.5.23")),
        ({"HEAD": "ref: refs/heads/main", "refs/heads/main": HEAD, "packed-refs": PACKED},
         ("0.5.23", "0.5.23")),
        ({"HEAD": "ref: refs/heads/main", "packed-refs": f"{PACKED}{OTHER} refs/heads/main\n"},
         ("0.5.22", "0.5.23")),
        ({"HEAD": HEAD, "refs/tags/v0.5.9": HEAD, "refs/tags/v0.5.10": OTHER,
          "refs/tags/gateway-v9.9.9": HEAD}, ("0.5.9", "0.5.10")),
        ({"HEAD": HEAD, "refs/tags/v0.5.9": HEAD, "refs/tags/v0.5.9.post1": HEAD},
         ("0.5.9.post1", "0.5.9.post1")),
        ({"HEAD": HEAD}, (None, None)),
        ({}, (None, None)),
    ],
)  # fmt: skip
def test_tags(
    files: dict[str, str], expected: tuple[str | None, str | None], tmp_path: Path
) -> None:
    assert tagged_version(git(tmp_path, files)) == expected


def checkout(tree: Tree, files: dict[str, str], tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    tree(files, version=None).rename(root / "python")
    return root


def test_the_tag_that_is_checked_out(tree: Tree, calls: dict[str, str], tmp_path: Path) -> None:
    root = git(checkout(tree, calls, tmp_path), {"HEAD": HEAD, "packed-refs": PACKED})
    assert extract(root).version == "0.5.23"
    assert extract(root, "0.5.24.dev1").version == "0.5.24.dev1"


def test_a_checkout_after_its_newest_tag(tree: Tree, calls: dict[str, str], tmp_path: Path) -> None:
    root = git(checkout(tree, calls, tmp_path), {"HEAD": "d" * 40, "packed-refs": PACKED})
    with pytest.raises(ConfiguratorError, match=r"CAT003 .*newest tag is v0\.5\.23, which is not"):
        extract(root)


def test_tags_of_another_repository_say_nothing(
    tree: Tree, calls: dict[str, str], tmp_path: Path
) -> None:
    tree(calls, version=None)
    git(tmp_path, {"HEAD": HEAD, "packed-refs": PACKED})
    assert SourceTree(tmp_path / "tree").version is None


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"sglang/_version.py": "__version__ = version = '0.5.23'"}, "0.5.23"),
        ({"sglang/version.py": '__version__ = "0.5.2"'}, "0.5.2"),
        ({"sglang/version.py": '__version__ = "0.0.0.dev0"'}, None),
        ({"sglang/version.py": "from sglang._version import __version__"}, None),
        ({"pyproject.toml": '[project]\nname = "sglang"\nversion = "0.5.1"'}, "0.5.1"),
        ({"pyproject.toml": '[project]\nname = "other"\nversion = "0.5.1"'}, None),
        ({"pyproject.toml": "[project"}, None),
        ({"sglang_router-9.9.dist-info/METADATA": "Version: 9.9\n"}, None),
        ({"sglang-0.5.3.dist-info/METADATA": "Version: 0.5.3\n",
          "sglang/_version.py": "__version__ = '0.5.4'"}, "0.5.3"),
    ],
)  # fmt: skip
def test_what_else_says_a_version(
    files: dict[str, str], expected: str | None, tree: Tree, calls: dict[str, str]
) -> None:
    assert SourceTree(tree(calls | files, version=None)).version == expected


def test_a_virtual_environment(tree: Tree, calls: dict[str, str], tmp_path: Path) -> None:
    site = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    site.parent.mkdir(parents=True)
    tree(calls, version="0.5.9").rename(site)
    assert extract(tmp_path / "venv") == extract(site)
    assert extract(site / "sglang").version == "0.5.9"
