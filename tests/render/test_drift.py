"""Rendered folders that are no longer what the profile renders to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stand_in import LIBRARY

from configurator.cli import run
from configurator.content import ROOT
from configurator.render import TARGETS, drift, write
from configurator.resolve import resolve

NAME = "muse-spark-open-gb300x8"
FILES = TARGETS["bash"](resolve(*LIBRARY.profile(NAME), LIBRARY))


def said(folder: Path) -> list[str]:
    return [str(one) for one in drift(FILES, folder)]


def test_a_fresh_folder_has_none(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    assert said(tmp_path) == []
    assert run(["render", NAME, "--check", str(tmp_path)]) == 0


def test_every_kind_is_named_with_its_line(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    router = tmp_path / "router.sh"
    lines = router.read_text().splitlines(keepends=True)
    lines[3] = lines[3].rstrip("\n") + " --policy random\n"
    router.write_text("".join(lines))
    (tmp_path / "START.md").unlink()
    old = tmp_path / "replica2-host0.sh"
    old.write_text((tmp_path / "replica0-host0.sh").read_text())
    (tmp_path / "notes.txt").write_text("mine\n")
    assert said(tmp_path) == [
        "router.sh is changed from line 4",
        "START.md is missing",
        "replica2-host0.sh is left over",
    ]


def test_a_file_that_ends_early_differs_where_it_ends(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    script = tmp_path / "router.sh"
    lines = script.read_text().splitlines(keepends=True)
    script.write_text("".join(lines[:-1]))
    assert said(tmp_path) == [f"router.sh is changed from line {len(lines)}"]


def test_bytes_that_are_no_text_are_drift_too(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    (tmp_path / "router.sh").write_bytes(b"\xff\xfe")
    assert said(tmp_path) == ["router.sh is changed from line 1"]


def test_drift_ends_with_exit_code_1_and_writes_nothing(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    (tmp_path / "profile.yaml").write_text("x\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert run(["render", NAME, "--check", str(tmp_path)]) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "profile.yaml").read_text() == "x\n"
    assert run(["render", NAME, "--check", str(tmp_path / "none")]) == 2


def test_a_folder_with_every_target_is_recognised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["render", NAME, "--all", "-o", str(tmp_path)]) == 0
    capsys.readouterr()
    assert run(["render", NAME, "--check", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "has a folder for each of bash, docker, compose, systemd" in said
    assert f"give --all, or one of them: --target bash --check {tmp_path}/bash" in said
    assert run(["render", NAME, "--all", "--check", str(tmp_path)]) == 0
    assert run(["render", NAME, "--target", "bash", "--check", str(tmp_path / "bash")]) == 0


def test_only_rendered_files_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(FILES, tmp_path)
    (tmp_path / "START.md").unlink()
    for number in range(len(FILES)):
        (tmp_path / f"old-{number}.sh").write_text("# Made by configurator 0.0.1\n")
    assert run(["render", NAME, "--check", str(tmp_path)]) == 1
    total = len(FILES)
    assert (
        f"RND005: 1 of {total} files differ, and {total} left over or foreign"
        in capsys.readouterr().err
    )


def test_a_filled_in_example_is_the_operators(tmp_path: Path) -> None:
    files = TARGETS["compose"](resolve(*LIBRARY.profile(NAME), LIBRARY))
    write(files, tmp_path)
    example = (tmp_path / "host0" / ".env.example").read_text()
    assert "REPLICA1_HOST0_ADDR=\n" in example
    (tmp_path / "host0" / ".env").write_text(example.replace("=\n", "=192.0.2.10\n"))
    assert drift(files, tmp_path) == ()


SCRIPT = "replica0-host0.sh"
FOREIGN = "is foreign in the probe's folder, where the engine looks for modules"


def test_a_lost_executable_bit_and_one_that_everyone_may_write(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    script = tmp_path / SCRIPT
    script.chmod(0o644)
    assert said(tmp_path) == [f"{SCRIPT} is not executable"]
    script.chmod(0o777)
    (tmp_path / "START.md").chmod(0o646)
    assert set(said(tmp_path)) == {
        f"{SCRIPT} is writable by everyone", "START.md is writable by everyone",
    }  # fmt: skip
    assert run(["render", NAME, "--check", str(tmp_path)]) == 1
    write(FILES, tmp_path)
    assert said(tmp_path) == []


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o700, 0o500])
def test_modes_of_other_umasks_are_no_drift(tmp_path: Path, mode: int) -> None:
    write(FILES, tmp_path)
    (tmp_path / SCRIPT).chmod(mode)
    assert said(tmp_path) == []


def test_folders_that_everyone_may_write(tmp_path: Path) -> None:
    """Whoever may write in one puts another file in the place of any."""
    out = tmp_path / "out"
    write(FILES, out)
    out.chmod(0o777)
    (out / "probe" / "configurator_probe").chmod(0o1777)
    assert said(out) == [
        ". is writable by everyone", "probe/configurator_probe is writable by everyone",
    ]  # fmt: skip
    out.chmod(0o770)
    (out / "probe" / "configurator_probe").chmod(0o755)
    assert said(out) == []


def test_files_for_keys_are_their_owners_alone(tmp_path: Path) -> None:
    files = TARGETS["compose"](resolve(*LIBRARY.profile("ling-3.0-flash-spark"), LIBRARY))
    write(files, tmp_path)
    example = tmp_path / "keys.env.example"
    assert example.stat().st_mode & 0o777 == 0o600
    # As `cp` makes it: with the mode of what it copies.
    copy = tmp_path / "keys.env"
    copy.write_text("LING_API_KEY='k'\n")
    copy.chmod(0o600)
    assert drift(files, tmp_path) == ()
    copy.chmod(0o640)
    example.chmod(0o644)
    assert [str(one) for one in drift(files, tmp_path)] == [
        "keys.env.example is open to others, and for keys",
        "keys.env is open to others, and for keys",
    ]
    assert run(["render", "ling-3.0-flash-spark", "--target", "compose", "--check", str(tmp_path)])


def test_files_beside_the_probe_could_shadow_modules(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    (tmp_path / "probe" / "torch.py").write_text("")
    (tmp_path / "probe" / "numpy").symlink_to(tmp_path)
    marked = tmp_path / "probe" / "json.py"
    marked.write_text("# Made by configurator\n")
    cache = tmp_path / "probe" / "configurator_probe" / "__pycache__"
    cache.mkdir()
    (cache / "run.cpython-311.pyc").write_bytes(b"Made by configurator")
    (tmp_path / "torch.py").write_text("of the operator, and nobody looks for modules here")
    assert said(tmp_path) == [
        f"probe/{name} {FOREIGN}" for name in ("json.py", "numpy", "torch.py")
    ]
    assert run(["render", NAME, "--check", str(tmp_path)]) == 1


def test_a_module_of_an_earlier_probe_is_left_over(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    package = tmp_path / "probe" / "configurator_probe"
    head = (package / "run.py").read_text().splitlines()[0]
    (package / "older.py").write_text(f"{head}\n")
    (tmp_path / "probe" / "configurator_probe.py").write_text(f"{head}\n")
    assert said(tmp_path) == [
        "probe/configurator_probe/older.py is left over",
        "probe/configurator_probe.py is left over",
    ]


def test_what_is_no_file_is_not_called_missing(tmp_path: Path) -> None:
    write(FILES, tmp_path)
    for name in ("START.md", "router.sh", SCRIPT):
        (tmp_path / name).unlink()
    (tmp_path / "START.md").mkdir()
    (tmp_path / "router.sh").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / SCRIPT)
    assert set(said(tmp_path)) == {
        f"{name} is not a file" for name in ("START.md", "router.sh", SCRIPT)
    }


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(FILES, tmp_path)
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "router.sh":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert said(tmp_path) == ["router.sh is unreadable"]


def rendered(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What `render` says of files that were there before."""
    capsys.readouterr()
    assert run(["render", *words, "-o", str(folder)]) == 0
    lines = capsys.readouterr().err.splitlines()
    return [line.removeprefix(f"{folder}/") for line in lines if line.startswith(f"{folder}/")]


def test_rendering_names_what_earlier_renderings_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rendered(tmp_path, capsys, NAME) == []
    (tmp_path / "notes.txt").write_text("mine\n")
    assert rendered(tmp_path, capsys, NAME) == []
    script = (tmp_path / SCRIPT).read_text()
    (tmp_path / "replica9-host0.sh").write_text(script)
    older = tmp_path / "probe" / "configurator_probe" / "older.py"
    older.write_text((older.with_name("run.py")).read_text())
    earlier = "is of an earlier or another rendering: remove it"
    assert rendered(tmp_path, capsys, NAME) == [
        f"probe/configurator_probe/older.py {earlier}", f"replica9-host0.sh {earlier}",
    ]  # fmt: skip
    assert older.exists()


def test_rendering_names_what_is_of_another_target_or_deployment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "ling-3.0-flash-spark"
    earlier = "is of an earlier or another rendering: remove it"
    rendered(tmp_path, capsys, NAME)
    told = rendered(tmp_path, capsys, other)
    assert told[0] == f"profile.yaml was of deployment {NAME}, and is replaced"
    assert f"router.sh {earlier}" in told
    assert not [line for line in told if line.startswith(f"{SCRIPT} ")]
    assert rendered(tmp_path / "b", capsys, other) == []
    told = rendered(tmp_path / "b", capsys, other, "--target", "compose")
    assert f"{SCRIPT} {earlier}" in told
    assert all(line.endswith(earlier) for line in told)


def test_content_of_ones_own_is_needed_where_the_launch_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ROOT / "examples" / "own-content"
    words = ["render", str(ROOT / "examples" / "lab-box.yaml"), "--content", str(own)]
    assert run([*words, "-o", str(tmp_path)]) == 0
    assert f"set CONFIGURATOR_CONTENT={own}" in capsys.readouterr().err
    assert run(["render", NAME, "-o", str(tmp_path / "other")]) == 0
    assert "CONFIGURATOR_CONTENT" not in capsys.readouterr().err
