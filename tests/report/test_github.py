"""GitHub Actions annotations: where they point, and that no text can break out of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.errors import Position
from configurator.report.findings import FileFindings, Policy
from configurator.report.github import commands
from configurator.validate import Diagnostic


def finding(**changed: object) -> Diagnostic:
    given: dict[str, object] = {
        "code": "MEM901",
        "name": "too-much",
        "severity": "error",
        "message": "0.97 is too much",
        "remedy": "set 0.88",
        "position": Position("profiles/mine.yaml", 2, 3),
        "path": "memory.mem_fraction_static",
        "source": "a test",
    }
    return Diagnostic(**(given | changed))  # type: ignore[arg-type]


def said(*findings: Diagnostic, file: str = "profiles/mine.yaml") -> list[str]:
    return list(commands([Policy().over(file, findings)]))


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_finding_is_one_command() -> None:
    assert said(finding()) == [
        "::error file=profiles/mine.yaml,line=2,col=3,title=MEM901 too-much"
        "::0.97 is too much%0Aremedy: set 0.88"
    ]


@pytest.mark.parametrize(
    ("severity", "word"), [("error", "error"), ("warning", "warning"), ("info", "notice")]
)
def test_severities(severity: str, word: str) -> None:
    assert said(finding(severity=severity))[0].startswith(f"::{word} file=")


def test_what_would_end_a_message_or_a_property_is_escaped() -> None:
    (line,) = said(
        finding(
            message="100% of a: b, c\r\n::set-env name=X::y",
            remedy="",
            position=Position("a dir/50%,x:y.yaml", 1, 1),
        )
    )
    assert line == (
        "::error file=a dir/50%25%2Cx%3Ay.yaml,line=1,col=1,title=MEM901 too-much"
        "::100%25 of a: b, c%0D%0A::set-env name=X::y"
    )


@pytest.mark.parametrize("control", ["\x1b[31m", "\x00", "\x9b", "\u2028", "\x0b", "\x85"])
def test_no_command_has_a_control_character_or_a_second_line(control: str) -> None:
    (line,) = said(finding(message=f"a{control}b", name=f"n{control}"))
    assert control not in line
    assert len(line.splitlines()) == 1
    assert "a" in line.split("::")[2]


def test_paths_count_from_the_root_of_the_repository(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "sub")
    (line,) = said(finding(position=Position("my profile.yaml", 1, 1)))
    assert "file=sub/my profile.yaml," in line
    (line,) = said(finding(position=Position("../..names.yaml", 1, 1)))
    assert "file=..names.yaml," in line
    (line,) = said(finding(position=Position("/elsewhere/x.yaml", 1, 1)))
    assert "file=/elsewhere/x.yaml," in line


def test_without_a_place_the_file_is_pointed_at_or_named(repository: Path) -> None:
    (repository / "a b.yaml").write_text("x: 1\n")
    (line,) = said(finding(position=None, remedy=""), file="a b.yaml")
    assert line == "::error file=a b.yaml,title=MEM901 too-much::0.97 is too much"
    (line,) = said(finding(position=None, remedy="", name=""), file="a-deployment")
    assert line == "::error title=MEM901::a-deployment: 0.97 is too much"


def test_silenced_findings_are_left_out() -> None:
    assert said(finding(suppressed="known"), finding(code="MEM902")) == [
        "::error file=profiles/mine.yaml,line=2,col=3,title=MEM902 too-much"
        "::0.97 is too much%0Aremedy: set 0.88"
    ]
    assert list(commands([FileFindings("clean.yaml", ())])) == []
