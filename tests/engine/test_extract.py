"""Reading wheels and trees, and writing catalogues from the command line."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from configurator.engine.catalogue import Store, shipped
from configurator.engine.extract import extract, main
from configurator.errors import ConfiguratorError

Tree = Callable[..., Path]
Files = dict[str, str]


def wheel_of(root: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(root.rglob("*")):
            archive.write(file, str(file.relative_to(root)))
    return path


def test_a_wheel_and_its_tree_give_the_same(tree: Tree, layout: Files, tmp_path: Path) -> None:
    root = tree(layout)
    assert extract(wheel_of(root, tmp_path / "sglang-1.2.3.whl")) == extract(root)
    assert extract(root).version == "1.2.3"


def test_a_checkout_and_the_package_itself(tree: Tree, calls: Files, tmp_path: Path) -> None:
    root = tree(calls, version=None)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    root.rename(checkout / "python")
    found = extract(checkout, version="9.9")
    assert found.version == "9.9"
    assert found == extract(checkout / "python" / "sglang", version="9.9")


def test_a_byte_order_mark_is_no_obstacle(tree: Tree, calls: Files) -> None:
    root = tree(calls)
    path = root / "sglang" / "srt" / "backends.py"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert extract(root).flags["moe"].choices == ("auto", "triton")


def test_a_module_that_does_not_parse_is_passed_over(tree: Tree, calls: Files) -> None:
    root = tree(calls | {"sglang/srt/backends.py": "print 'no'"})
    assert extract(root).flags["moe"].choices == ()


@pytest.mark.parametrize("content", [None, b"", b"not a wheel"])
def test_what_is_no_wheel(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfiguratorError, match=r"CAT001 .*x\.whl is no wheel"):
        extract(path)


def test_another_package(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").touch()
    with pytest.raises(ConfiguratorError, match=r"CAT002 .*has no sglang/srt/server_args\.py"):
        extract(tmp_path)
    with pytest.raises(ConfiguratorError, match="CAT002"):
        extract(wheel_of(tmp_path, tmp_path.with_suffix(".whl")))


def test_a_tree_without_a_version(tree: Tree, calls: Files) -> None:
    with pytest.raises(ConfiguratorError, match=r"CAT003 .*--version 0\.5\.23"):
        extract(tree(calls, version=None))


def test_the_command_adds_to_a_file(
    tree: Tree, calls: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, file = tree(calls), tmp_path / "c.json.xz"
    assert main([str(root), "--into", str(file), "--version", "0.5.9"]) == 0
    assert main([str(root), "--into", str(file), "--version", "0.5.10"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        "0.5.9: 12 flags, 0 variables declared, 0 retired, 0 read elsewhere, "
        "3 names, 0 architectures"
    )
    assert Store(file).versions == ("0.5.9", "0.5.10")
    assert Store(file).load("0.5.9") == extract(root, "0.5.9")


def test_the_command_reports_unusable_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "CAT002" in capsys.readouterr().err


def test_the_file_depends_on_the_catalogues_alone(
    tree: Tree, layout: Files, tmp_path: Path
) -> None:
    root = tree(layout)
    first, second = extract(root, "0.5.9"), extract(root, "0.5.10")
    paths = [tmp_path / name for name in ("a.xz", "b.xz", "c.xz")]
    Store(paths[0]).write([first, second])
    Store(paths[1]).write([extract(root, "0.5.10"), extract(root, "0.5.9")])
    Store(paths[2]).write([second])
    Store(paths[2]).write([first])
    assert paths[0].read_bytes() == paths[1].read_bytes() == paths[2].read_bytes()


def test_the_shipped_file_is_as_it_is_written(tmp_path: Path) -> None:
    again = tmp_path / "again.xz"
    some = [c for v in shipped().versions if (c := shipped().load(v))]
    Store(again).write(reversed(some))
    assert again.read_bytes() == shipped().path.read_bytes()
    assert again.stat().st_size < 80_000


def test_a_pipe_or_a_device_is_no_wheel(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.whl")
    (tmp_path / "zero.whl").symlink_to("/dev/zero")
    for name, fact in (("pipe", "is a pipe"), ("zero", "is a device")):
        with pytest.raises(ConfiguratorError, match=rf"CAT001 .*/{name}\.whl {fact}, not a file"):
            extract(tmp_path / f"{name}.whl")


def test_a_pipe_in_a_tree_is_not_read(tree: Tree, layout: Files) -> None:
    root = tree(layout)
    (root / "sglang/srt/server_args.py").unlink()
    os.mkfifo(root / "sglang/srt/server_args.py")
    with pytest.raises(ConfiguratorError, match=r"CAT001 .*server_args\.py is a pipe, not a file"):
        extract(root)


def test_a_wheel_whose_files_cannot_be_read(tree: Tree, layout: Files, tmp_path: Path) -> None:
    wheel = wheel_of(tree(layout), tmp_path / "sglang-1.2.3.whl")
    good = wheel.read_bytes()
    wheel.write_bytes(good.replace(b"class ServerArgs", b"class ServerXrgs"))
    with pytest.raises(ConfiguratorError, match=r"CAT001 sglang/srt/server_args\.py in .*CRC"):
        extract(wheel)


def test_a_wheel_that_unpacks_without_end(tree: Tree, layout: Files, tmp_path: Path) -> None:
    path = tmp_path / "sglang-1.2.3.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sglang/srt/server_args.py", b"#" * ((32 << 20) + 1))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(ConfiguratorError, match=r"CAT001 .*server_args\.py .*larger than 32 MiB"):
        extract(path, "1.2.3")


@pytest.mark.parametrize("text", ["x = 1\0\n", "(" * 5000, "-" * 100_000 + "1"])
def test_a_module_that_breaks_the_parser_is_passed_over(
    tree: Tree, calls: Files, text: str
) -> None:
    root = tree(calls | {"sglang/srt/backends.py": text})
    assert extract(root).flags["moe"].choices == ()
