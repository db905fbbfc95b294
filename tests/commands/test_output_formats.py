"""`validate` in every form: chosen findings, written files, exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from configurator.cli import run
from configurator.content import ROOT

Capture = pytest.CaptureFixture[str]
FORMS = ("terminal", "json", "github", "sarif", "junit")
HEAD = "apiVersion: configurator/v1\nkind: Deployment\nname: w\n"
WARNED = f"{HEAD}extends: ling-3.0-flash-spark\nrouter: null\n"
"""One warning, SCH010, and the infos of what it extends."""
REFUSED = f"{WARNED}memory: {{mem_fraction_static: 0.85}}\n"
"""One error, MEM101, and one warning, SCH010."""
BROKEN = f"{HEAD}hardwear: {{}}\n"


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "my profiles").mkdir()
    (tmp_path / "my profiles" / "warned.yaml").write_text(WARNED)
    (tmp_path / "refused.yaml").write_text(REFUSED)
    (tmp_path / "broken.yaml").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def codes(capsys: Capture, *options: str, profile: str = "./refused.yaml") -> tuple[int, list[str]]:
    """The exit code, and the codes that the JSON form holds."""
    exit_code = run(["validate", profile, "--format", "json", *options])
    (entry,) = json.loads(capsys.readouterr().out)["profiles"]
    assert entry["exit_code"] == exit_code
    return exit_code, [finding["code"] for finding in entry["findings"]]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_names_place_code_and_remedy(form: str, capsys: Capture) -> None:
    assert run(["validate", "./refused.yaml", "--format", form, "--select", "MEM101"]) == 1
    out = capsys.readouterr().out
    for part in ("refused.yaml", "MEM101", "0.85 of 128 GB", "set it to 0.68"):
        assert part in " ".join(out.split())


@pytest.mark.parametrize("form", FORMS)
def test_every_form_writes_to_a_file(form: str, tmp_path: Path, capsys: Capture) -> None:
    argv = ["validate", "./my profiles/warned.yaml", "broken.yaml", "--format", form]
    assert run(argv) == 2
    printed = capsys.readouterr().out
    target = tmp_path / "out put.txt"
    assert run([*argv, "-o", str(target)]) == 2
    assert capsys.readouterr().out == ""
    assert target.read_text() == printed
    assert "SCH005" in printed


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_cannot_be_written_is_exit_2(form: str, capsys: Capture) -> None:
    argv = ["validate", "ling-3.0-flash-spark", "--format", form, "-o", "no/such/dir/x"]
    assert run(argv) == 2
    err = capsys.readouterr().err
    assert "no/such/dir/x" in err
    assert "No such file or directory" in err


def test_forms_can_be_read(capsys: Capture) -> None:
    argv = ["validate", "./my profiles/warned.yaml", "--select", "SCH", "--format"]
    assert run([*argv, "sarif"]) == 0
    (sarif,) = json.loads(capsys.readouterr().out)["runs"]
    (result,) = sarif["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "my%20profiles/warned.yaml"
    assert place["region"] == {"startLine": 5, "startColumn": 1}
    assert run([*argv, "junit"]) == 0
    (case,) = ElementTree.fromstring(capsys.readouterr().out)[0]
    assert (case.get("file"), case.get("line")) == ("my profiles/warned.yaml", "5")
    assert run([*argv, "github"]) == 0
    assert capsys.readouterr().out.startswith(
        "::warning file=my profiles/warned.yaml,line=5,col=1,title=SCH010::"
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), (1, {"MEM101", "SCH010"})),
        (("--ignore", "MEM101"), (0, {"SCH010"})),
        (("--ignore", "MEM"), (0, {"SCH010"})),
        (("--ignore", "MEM1", "--ignore", "SCH010"), (0, set())),
        (("--ignore", "MEM101, SCH"), (0, set())),
        (("--ignore", "MEM102"), (1, {"MEM101", "SCH010"})),
        (("--select", "MEM"), (1, {"MEM101"})),
        (("--select", "SCH,ENV"), (0, {"SCH010"})),
        (("--select", "MEM", "--ignore", "MEM101"), (0, set())),
        (("--select", "SCH", "--fail-on", "warning"), (1, {"SCH010"})),
        (("--ignore", "MEM,SCH010", "--fail-on", "warning"), (0, set())),
    ],
)
def test_findings_are_chosen_by_code(
    options: tuple[str, ...], expected: tuple[int, set[str]], capsys: Capture
) -> None:
    exit_code, found = codes(capsys, *options)
    assert (exit_code, set(found) & {"MEM101", "SCH010"}) == expected


@pytest.mark.parametrize(
    ("fail_on", "expected"), [("error", 0), ("warning", 1), ("info", 1), ("never", 0)]
)
def test_fail_on(fail_on: str, expected: int, capsys: Capture) -> None:
    profile = "./my profiles/warned.yaml"
    assert codes(capsys, "--fail-on", fail_on, profile=profile)[0] == expected


def test_never_fails_but_for_unusable_input(capsys: Capture) -> None:
    assert codes(capsys, "--fail-on", "never")[0] == 0
    assert codes(capsys, "--fail-on", "never", profile="./broken.yaml")[0] == 2


@pytest.mark.parametrize("options", [("--ignore", "SCH,REF"), ("--select", "MEM101")])
def test_unusable_input_cannot_be_ignored(options: tuple[str, ...], capsys: Capture) -> None:
    exit_code, found = codes(capsys, *options, profile="./broken.yaml")
    assert exit_code == 2
    assert "SCH005" in found


def test_the_terminal_counts_what_is_ignored(capsys: Capture) -> None:
    assert run(["validate", "./refused.yaml", "--ignore", "MEM101,SCH010"]) == 0
    out = capsys.readouterr().out
    assert "MEM101" not in out
    assert "2 ignored" in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("option", "entry", "remedy"),
    [
        ("--ignore", "MEM999", "did you mean 'MEM"),
        ("--ignore", "MEMO", "did you mean 'MEM'"),
        ("--select", "mem101", "did you mean 'MEM101'"),
        ("--ignore", "S", "known: "),
        ("--ignore", "MEM101,", "known: "),
        ("--select", "MEM*", "did you mean 'MEM"),
    ],
)
def test_an_unknown_code_is_exit_2(option: str, entry: str, remedy: str, capsys: Capture) -> None:
    assert run(["validate", "./refused.yaml", option, entry]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"REF005 {option} " in captured.err
    assert remedy in captured.err


def test_quiet_leaves_out_infos_and_keeps_the_exit_code(capsys: Capture) -> None:
    loud, found = codes(capsys, "--fail-on", "info", profile="ling-3.0-flash-spark")
    assert loud == 1
    assert found
    assert codes(capsys, "--fail-on", "info", "-q", profile="ling-3.0-flash-spark") == (1, [])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "careless",
    [
        "serving: {api_key: swordfish-1}\n",
        "extra: {env: {FOO: hf_swordfish12345678}}\n",
        "memory:\n"
        "  mem_fraction_static: 0.85  # configurator: ignore[MEM101] hf_swordfish12345678\n",
    ],
)
def test_a_secret_reaches_no_form(
    careless: str, form: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "s.yaml").write_text(f"{WARNED}{careless}")
    run(["validate", "./s.yaml", "--format", form])
    captured = capsys.readouterr()
    assert "s.yaml" in captured.out
    assert "swordfish" not in captured.out + captured.err


def hooks() -> dict[str, dict[str, str]]:
    found = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return {hook["id"]: hook for hook in found}


@pytest.mark.parametrize(
    ("hook", "path", "wanted"),
    [
        ("configurator-validate", "profiles/deployments/a.yaml", True),
        ("configurator-validate", "deployments/a.yml", True),
        ("configurator-validate", "profiles/hardware/h200.yaml", False),
        ("configurator-validate", "my-deployments/a.yaml", False),
        ("configurator-lint", "launch/run.sh", True),
        ("configurator-lint", "sglang.service", True),
        ("configurator-lint", "docker/Dockerfile.cuda", True),
        ("configurator-lint", "docker-compose.prod.yml", True),
        ("configurator-lint", "compose.yaml", True),
        ("configurator-lint", "k8s/base/server.yaml", True),
        ("configurator-lint", "docs/index.md", False),
        ("configurator-lint", "run.shell", False),
        ("configurator-lint", "values.yaml", False),
    ],
)
def test_hooks_take_the_files_they_are_for(hook: str, path: str, wanted: bool) -> None:
    assert (re.search(hooks()[hook]["files"], path) is not None) is wanted


def test_hooks_run_verbs() -> None:
    assert {hook["entry"] for hook in hooks().values()} == {
        "configurator validate",
        "configurator lint",
    }


def blocks(language: str) -> list[str]:
    page = (ROOT / "docs" / "ci.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def test_the_page_about_ci_has_yaml_that_can_be_read() -> None:
    parsed = [yaml.safe_load(block) for block in blocks("yaml")]
    assert len(parsed) == 6
    assert all(isinstance(document, dict) for document in parsed)
    used = {
        hook["id"] for document in parsed for r in document.get("repos", ()) for hook in r["hooks"]
    }
    assert used == set(hooks())


def test_commands_of_the_page_about_ci_work(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "deployments").mkdir()
    (tmp_path / "deployments" / "a.yaml").write_text(WARNED)
    lines = re.findall(
        r"configurator ((?:validate|schema) .*)", "\n".join(blocks(r"(?:yaml|bash)"))
    )
    assert len(lines) == 4
    for line in lines:
        command = line.split(" > ")[0].replace("*", "a")
        assert run(command.split()) == 0
    assert ElementTree.parse(tmp_path / "configurator.xml").getroot().get("failures") == "0"
    assert json.loads((tmp_path / "validate.sarif").read_text())["version"] == "2.1.0"
