"""The README's commands are run, and its test command is what CI runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from shown_commands import shown

from configurator.cli import run
from configurator.content import ROOT

README = (ROOT / "README.md").read_text()


def blocks() -> list[str]:
    return re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    (command,) = [block.strip() for block in blocks() if "./check" in block]
    assert command in (ROOT / ".ci" / "run").read_text()


def test_the_first_command_installs_and_runs_the_demo() -> None:
    (command,) = [block.strip() for block in blocks() if "configurator demo" in block]
    assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q -e . && ")


def test_commands_of_the_readme_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    lines = shown(README)
    assert len(lines) == 8
    for line in lines:
        assert run(shlex.split(line)[1:]) == 0, line
        assert capsys.readouterr().out
    assert (tmp_path / "launch" / "replica0-host0.sh").is_file()


def test_commands_of_the_page_on_launches_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    lines = shown((ROOT / "docs" / "lint.md").read_text())
    assert len(lines) == 7
    for line in lines:
        # The newest release refuses the example, as the page's reader is to see.
        refused = line == "configurator lint examples/launch.sh"
        assert run(shlex.split(line)[1:]) == int(refused), line
        assert capsys.readouterr().out


def test_what_the_page_on_plans_shows_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    page = (ROOT / "docs" / "plan.md").read_text()
    commands = shown(page)
    assert len(commands) == 3
    for line in commands:
        assert run(shlex.split(line)[1:]) == 0, line
    assert (tmp_path / "plan.svg").is_file()
    capsys.readouterr()
    example = re.search(r"```text\n\$ (configurator plan .*?)\n(.*?)```", page, flags=re.DOTALL)
    assert example is not None
    assert run(shlex.split(example[1])[1:]) == 0
    printed = iter(capsys.readouterr().out.splitlines())
    for line in example[2].splitlines():
        # In their order, with some left out.
        assert line in ("", "...") or line in printed, line


def test_links_of_the_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_demo_shown_is_the_demo(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = re.search(r"```text\n(\$ configurator demo.*?)```", README, flags=re.DOTALL)
    assert shown is not None
    assert run(["demo"]) == 0
    printed = capsys.readouterr().out.splitlines()
    for line in shown.group(1).splitlines()[1:]:
        if line.strip() not in ("", "..."):
            assert line in printed
