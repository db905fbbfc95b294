"""The probe bundle: found as a plugin, the same every time, and never over other files."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from interpreters import engine_python

from configurator.cli import run
from configurator.errors import ConfiguratorError
from configurator.inengine.bundle import MARKS, bundle_files, write_bundle

COLLECTOR = [
    "__init__", "__main__", "client", "collecting", "command", "host", "inputs", "listeners",
    "logfile", "logline", "manifest", "nesting", "plan", "process", "profiling", "readiness",
    "redaction", "replica", "reports", "sending", "tracefiles", "writing",
]  # fmt: skip
PROBE = [
    "__init__", "building", "drafts", "environment", "gathering", "graphs", "heads", "hooked",
    "hooks", "layers", "models", "origin", "registering", "run", "sharing", "tensors", "values",
    "writing",
]  # fmt: skip
NAMES = [
    *(f"configurator_collector/{name}.py" for name in COLLECTOR),
    "configurator_probe-1.dist-info/METADATA",
    "configurator_probe-1.dist-info/entry_points.txt",
    *(f"configurator_probe/{name}.py" for name in PROBE),
]
OF_OLD = '"""Reports from inside SGLang what every rank was built as.\n\nOne file once.\n"""\n'


def files(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def test_the_bundle_is_the_same_every_time(tmp_path: Path) -> None:
    write_bundle(tmp_path / "one")
    write_bundle(tmp_path / "two" / "deep")
    first = files(tmp_path / "one")
    assert sorted(first) == NAMES
    assert first == files(tmp_path / "two" / "deep")


def test_a_bundle_is_refreshed_in_place(tmp_path: Path) -> None:
    write_bundle(tmp_path)
    module = tmp_path / "configurator_probe" / "hooks.py"
    module.write_text("# Reports from inside SGLang, cut short\n")
    (module.parent / "__pycache__").mkdir()
    (module.parent / "__pycache__" / "hooks.cpython-311.pyc").write_bytes(b"x")
    write_bundle(tmp_path)
    assert module.read_text() == bundle_files()["configurator_probe/hooks.py"]


def test_the_probe_of_one_file_gives_way_to_its_package(tmp_path: Path) -> None:
    (tmp_path / "configurator_probe.py").write_text(OF_OLD)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "configurator_probe.cpython-311.pyc").write_bytes(b"x")
    written = write_bundle(tmp_path)
    assert not (tmp_path / "configurator_probe.py").exists()
    assert set(files(tmp_path)) == {*NAMES, "__pycache__/configurator_probe.cpython-311.pyc"}
    # Who imports it meanwhile gets the old file until the package is whole.
    probe = [path.name for path in written if path.parent.name == "configurator_probe"]
    assert (len(probe), probe[-1]) == (len(PROBE), "__init__.py")


def test_of_a_package_and_a_module_python_takes_the_package(tmp_path: Path) -> None:
    write_bundle(tmp_path)
    (tmp_path / "configurator_probe.py").write_text("raise SystemExit('of old')")
    code = "import configurator_probe as probe; print(probe.__file__, probe.KEY)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(tmp_path)}, text=True,
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    package = tmp_path / "configurator_probe" / "__init__.py"
    assert done.stdout == f"{package} configurator_probe\n"


@pytest.mark.parametrize("name", ["other.py", "torch/__init__.py"])
def test_a_directory_with_other_files_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("theirs")
    with pytest.raises(ConfiguratorError, match=f"RND002.*{name}"):
        write_bundle(tmp_path)
    assert list(files(tmp_path)) == [name]


def test_a_file_of_another_under_our_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "configurator_probe.py").write_text("theirs")
    with pytest.raises(ConfiguratorError, match="RND002"):
        write_bundle(tmp_path)
    assert (tmp_path / "configurator_probe.py").read_text() == "theirs"


@pytest.mark.parametrize("package", ["configurator_collector", "configurator_probe"])
@pytest.mark.parametrize("name", ["client.py", "hooks.py", "torch.py", "a.json", "deep/hooks.py"])
def test_a_file_of_another_in_a_package_of_ours_is_refused(
    tmp_path: Path, package: str, name: str
) -> None:
    path = tmp_path / package / name
    path.parent.mkdir(parents=True)
    path.write_text("theirs")
    with pytest.raises(ConfiguratorError, match=f"RND002.*{package}/{name}"):
        write_bundle(tmp_path)
    assert list(files(tmp_path).values()) == [b"theirs"]


@pytest.mark.parametrize(
    ("package", "module", "mark"),
    [
        ("configurator_collector", "client", "Part of configurator's collector"),
        ("configurator_probe", "hooks", "Reports from inside SGLang"),
    ],
)
def test_modules_of_another_version_are_replaced_and_removed(
    tmp_path: Path, package: str, module: str, mark: str
) -> None:
    (tmp_path / package).mkdir()
    for name in (module, "of_another_version"):
        (tmp_path / package / f"{name}.py").write_text(f"# {mark}, of another version\n")
    (tmp_path / "of_another_version.py").write_text(f"# {mark}\n")
    with pytest.raises(ConfiguratorError, match=r"RND002.* holds of_another_version.py, which"):
        write_bundle(tmp_path)
    (tmp_path / "of_another_version.py").unlink()
    write_bundle(tmp_path)
    assert {name: text.decode() for name, text in files(tmp_path).items()} == bundle_files()


@pytest.mark.parametrize("name", ["torch", "configurator_collector", "configurator_probe"])
def test_a_link_to_a_directory_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfiguratorError, match=f"RND002.*{name}"):
        write_bundle(tmp_path / "bundle")
    assert files(tmp_path) == {}


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfiguratorError, match="RND002"):
        write_bundle(tmp_path / "file")
    with pytest.raises(ConfiguratorError, match="RND003"):
        write_bundle(tmp_path / "file" / "below")


def test_python_finds_the_entry_point(tmp_path: Path) -> None:
    write_bundle(tmp_path)
    code = (
        "from importlib.metadata import entry_points\n"
        "(one,) = entry_points(group='sglang.srt.plugins')\n"
        "print(one.name, one.value, one.dist.name, one.load().__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)}, text=True,
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.split() == [
        "configurator_probe", "configurator_probe:register", "configurator-probe", "register",
    ]  # fmt: skip


def test_of_the_bundle_the_engine_loads_the_probe_alone(tmp_path: Path) -> None:
    write_bundle(tmp_path)
    code = (
        "import sys\n"
        "from importlib.metadata import entry_points\n"
        "[one.load()() for one in entry_points(group='sglang.srt.plugins')]\n"
        "print(*sorted(name for name in sys.modules if 'configurator' in name))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(tmp_path)}, text=True,
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    modules = (f"configurator_probe.{name}" for name in PROBE if name != "__init__")
    assert done.stdout.split() == ["configurator_probe", *modules]


def test_every_name_at_the_top_of_the_bundle_is_our_own() -> None:
    """What lies there comes before the engine's own modules."""
    tops = {name.split("/")[0] for name in bundle_files()}
    assert tops == {
        "configurator_collector", "configurator_probe", "configurator_probe-1.dist-info",
    }  # fmt: skip


def test_the_probe_needs_the_standard_library_alone() -> None:
    names: set[str] = set()
    for path, text in bundle_files().items():
        if not path.startswith("configurator_probe/"):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level:
                assert (node.level, node.module in PROBE) == (1, True), path
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module or "")
    assert names
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".py")])
def test_python_3_9_can_read_it_and_its_first_line_is_ours(name: str) -> None:
    text = bundle_files()[name]
    ast.parse(text, feature_version=(3, 9))
    assert MARKS[name.split("/")[0]] in text.splitlines()[0]


@pytest.mark.parametrize("python", ["this one", "python3.9"])
def test_without_an_engine_the_probe_says_so_and_goes_on(tmp_path: Path, python: str) -> None:
    write_bundle(tmp_path)
    code = "import configurator_probe; configurator_probe.register(); print('went on')"
    environment = {"PYTHONPATH": str(tmp_path), "CONFIGURATOR_PROBE_DIR": str(tmp_path / "out")}
    done = subprocess.run(
        [engine_python(python), "-c", code], env=environment, text=True, capture_output=True,
        check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "went on\n"
    assert "No module named 'sglang'" in done.stderr
    (path,) = (tmp_path / "out").iterdir()
    assert "No module named 'sglang'" in path.read_text()


def test_the_verb_lists_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe-bundle", "-o", str(tmp_path / "probe")]) == 0
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == [str(tmp_path / "probe" / name) for name in NAMES]
    assert f"PYTHONPATH={tmp_path / 'probe'}" in err
    assert "python -m configurator_collector --url " in err


def test_the_verb_refuses_other_files_with_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("theirs")
    assert run(["probe-bundle", "-o", str(tmp_path)]) == 2


def test_nothing_is_left_where_a_bundle_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, text: str, encoding: str) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ConfiguratorError, match=r"RND003.*No space left"):
        write_bundle(tmp_path / "bundle")
    assert files(tmp_path) == {}


def test_a_directory_that_pythonpath_would_split_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["probe-bundle", "-o", str(tmp_path / "a:b")]) == 0
    assert "warning" in (said := capsys.readouterr().err)
    assert "has a ':'" in said
    assert run(["probe-bundle", "-o", str(tmp_path / "ab")]) == 0
    assert "warning" not in capsys.readouterr().err
