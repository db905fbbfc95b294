"""The in-engine probe in rendered scripts: what the engine gets, and what becomes of its report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stand_in import ENGINE, LIBRARY, alive, environment, launch, rendered, seen, shellcheck

from configurator.demo.server import RECORDINGS
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.inengine.bundle import bundle_files
from configurator.render import TARGETS, fingerprint, write
from configurator.render.instrument import allows, instrumented, joined, probe_variables
from configurator.resolve import resolve
from configurator.up.launching import commands_of

SCRIPT = "replica0-host0.sh"
# What the stand-in of the engine does first: it looks for the plugin as a real interpreter, and
# leaves a report as a rank does.
BEFORE = r"""
import os, shutil, sys
if sys.argv[1:2] == ["-c"] and "entry_points" in sys.argv[2]:
    real = os.environ["REAL_PYTHON"]
    os.execv(real, [real, *os.environ.get("STUB_OPTIONS", "").split(), *sys.argv[1:]])
if sys.argv[1:2] != ["-c"]:
    for name in ("report", "hooks"):
        source = os.environ.get(f"STUB_{name.upper()}")
        if source:
            target = os.environ["CONFIGURATOR_PROBE_DIR"]
            end = {"report": "tp0-pp0-dp0", "hooks": "77"}[name]
            shutil.copy(source, f"{target}/{name}-{end}.json")
"""
REPORT = {
    name: RECORDINGS / name / "replica-0" / "reports" / "probe-tp0-pp0-dp0.json"
    for name in ("healthy", "sabotaged")
}
REQUIRED = "evidence: {require_report: true}\n"


def tools(tmp_path: Path, **more: str) -> dict[str, str]:
    """The stand-in's environment, with an engine that reports."""
    env = environment(tmp_path, **more)
    (tmp_path / "tools" / "python3").write_text(f"#!{sys.executable}\n{BEFORE}{ENGINE}")
    return env


def run(out: Path, env: dict[str, str], script: str = SCRIPT) -> tuple[int, str]:
    process = launch(out, env, script)
    printed, _ = process.communicate(timeout=120)
    return process.returncode, printed


def env_seen(tmp_path: Path) -> dict[str, str]:
    found = seen(tmp_path)["env"]
    assert isinstance(found, dict)
    return found


def deployment(tmp_path: Path, extra: str, version: str = "0.5.23") -> Deployment:
    path = tmp_path / "p.yaml"
    path.write_text(
        f"apiVersion: configurator/v1\nkind: Deployment\nname: stub\n{extra}"
        f"engine: {{version: {version}}}\nhardware: {{name: cpu, gpus: 1}}\n"
        "model: {name: qwen3-8b}\n"
    )
    return resolve(*LIBRARY.profile(str(path)), LIBRARY)


def test_the_probe_lies_beside_the_scripts_and_can_be_written_again(tmp_path: Path) -> None:
    out = rendered(tmp_path, "")
    for path, text in bundle_files().items():
        assert (out / "probe" / path).read_text() == text
    module = out / "probe" / "configurator_probe" / "hooks.py"
    (module.parent / "__pycache__").mkdir()
    (module.parent / "__pycache__" / "hooks.cpython-311.pyc").write_bytes(b"\0")
    module.write_text("# Reports from inside SGLang, of long ago\n")
    rendered(tmp_path, "")
    assert module.read_text() == bundle_files()["configurator_probe/hooks.py"]


@pytest.mark.parametrize(
    ("package", "module", "mark"),
    [
        ("configurator_collector", "client.py", "Part of configurator's collector"),
        ("configurator_probe", "hooks.py", "Reports from inside SGLang"),
    ],
)
def test_a_package_of_another_version_is_ours(
    tmp_path: Path, package: str, module: str, mark: str
) -> None:
    folder = tmp_path / "out" / "probe" / package
    folder.mkdir(parents=True)
    for name in (module, "of_another_version.py"):
        (folder / name).write_text(f"# {mark}, of long ago\n")
    rendered(tmp_path, "")
    assert (folder / module).read_text() == bundle_files()[f"{package}/{module}"]


def test_the_probe_of_one_file_may_stay_beside_its_package(tmp_path: Path, free_port: int) -> None:
    """Rendering removes nothing, and Python takes the package."""
    extra = f"serving: {{port: {free_port}}}\n"
    former = tmp_path / "out" / "probe" / "configurator_probe.py"
    former.parent.mkdir(parents=True)
    text = '"""Reports from inside SGLang what every rank was built as.\n"""\n'
    former.write_text(text + "raise SystemExit('of old')\n")
    out = rendered(tmp_path, extra)
    assert former.read_text().startswith(text)
    code, printed = run(out, tools(tmp_path, CONFIGURATOR_PREFLIGHT="only"))
    assert code == 0, printed
    assert "preflight plugins: configurator_probe is seen" in printed
    words = [sys.executable, "-S", "-c", "import configurator_probe as p; print(p.__file__)"]
    env = {"PYTHONPATH": str(former.parent)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert Path(done.stdout.strip()) == former.with_suffix("") / "__init__.py"


@pytest.mark.parametrize("name", ["torch", "configurator_probe"])
def test_a_link_to_a_folder_may_not_lie_on_the_search_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "probe").mkdir(parents=True)
    (tmp_path / "out" / "probe" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfiguratorError, match=rf"RND002.*probe/{name}"):
        rendered(tmp_path, "")


@pytest.mark.parametrize(
    "name",
    [
        "torch.py", "configurator_probe.py", "sglang/__init__.py",
        "configurator_collector/client.py", "configurator_collector/torch.py",
        "configurator_probe/hooks.py", "configurator_probe/torch.py",
    ],
)  # fmt: skip
def test_nobody_elses_file_may_lie_on_the_search_path(tmp_path: Path, name: str) -> None:
    file = tmp_path / "out" / "probe" / name
    file.parent.mkdir(parents=True)
    file.write_text("# of somebody else\n")
    with pytest.raises(ConfiguratorError, match="RND002") as caught:
        rendered(tmp_path, "")
    assert str(file) in str(caught.value)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["probe"]
    rendered(tmp_path, "evidence: {instrument: none}\n")  # then it is on no search path


@pytest.mark.parametrize("how", ["evidence: {instrument: none}\n", "version 0.5.10"])
def test_without_instrument_or_plugins_nothing_of_it_appears(tmp_path: Path, how: str) -> None:
    made = deployment(tmp_path, "", "0.5.10") if "0.5.10" in how else deployment(tmp_path, how)
    assert not instrumented(made)
    assert probe_variables(made, "/b", "/r") == {}
    files = TARGETS["bash"](made)
    assert {file.path for file in files} == {SCRIPT, "profile.yaml", "START.md"}
    script = next(file.text for file in files if file.path == SCRIPT)
    for word in ("PROBE", "probe", "PYTHONPATH", "SGLANG_PLUGINS", "REPORTS", "--reports"):
        assert word not in script, word
    write(files, tmp_path / "out")
    shellcheck(tmp_path / "out" / SCRIPT)


@pytest.mark.parametrize("required", [False, True])
def test_the_engine_gets_its_variables(tmp_path: Path, free_port: int, required: bool) -> None:
    extra = f"serving: {{port: {free_port}}}\n" + (REQUIRED if required else "")
    out = rendered(tmp_path, extra)
    shellcheck(out / SCRIPT)
    env = tools(tmp_path, STUB_MODE="end", STUB_REPORT=str(REPORT["healthy"]))
    code, printed = run(out, env)
    assert code == 5, printed
    assert "preflight plugins: configurator_probe is seen" in printed
    found = env_seen(tmp_path)
    assert found["PYTHONPATH"] == f"{out}/probe"
    assert found["CONFIGURATOR_PROBE_DIR"] == f"{out}/reports/replica-0"
    assert found.get("CONFIGURATOR_PROBE_REQUIRED") == ("1" if required else None)
    assert "SGLANG_PLUGINS" not in found
    checked = json.loads((tmp_path / "checked.json").read_text())
    assert checked[checked.index("--reports") + 1] == f"0={out}/reports/replica-0"


GIVEN = [
    ({}, {}),
    ({}, {"PYTHONPATH": "/of the caller", "SGLANG_PLUGINS": "one"}),
    ({"PYTHONPATH": "/it's:/x y", "SGLANG_PLUGINS": "nvidia_megakernel"}, {}),
    ({"PYTHONPATH": "/p"}, {"PYTHONPATH": "/q", "SGLANG_PLUGINS": "one, two"}),
    ({"PYTHONPATH": "", "SGLANG_PLUGINS": ""}, {"PYTHONPATH": "/q", "SGLANG_PLUGINS": "one"}),
    ({"SGLANG_PLUGINS": " configurator_probe ,a"}, {}),
    ({"CONFIGURATOR_PROBE_DIR": "/elsewhere"}, {}),
]


@pytest.mark.parametrize(("profile", "caller"), GIVEN)
def test_up_and_scripts_set_the_same(
    tmp_path: Path,
    free_port: int,
    monkeypatch: pytest.MonkeyPatch,
    profile: dict[str, str],
    caller: dict[str, str],
) -> None:
    extra = f"serving: {{port: {free_port}}}\n{REQUIRED}extra: {{env: {json.dumps(profile)}}}\n"
    out = rendered(tmp_path, extra)
    env = tools(tmp_path, STUB_MODE="die") | caller
    code, printed = run(out, env)
    assert code == 1, printed
    made = resolve(*LIBRARY.profile(str(tmp_path / "p.yaml")), LIBRARY)
    for name in ("PYTHONPATH", "SGLANG_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in caller.items():
        monkeypatch.setenv(name, value)
    asked = probe_variables(made, f"{out}/probe", f"{out}/reports/replica-0")
    (command,) = commands_of(made, 0, {}, None, {0: asked})
    found = env_seen(tmp_path)
    names = {
        "PYTHONPATH",
        "CONFIGURATOR_PROBE_DIR",
        "CONFIGURATOR_PROBE_REQUIRED",
        "SGLANG_PLUGINS",
    }
    assert {name: found.get(name) for name in names} == {
        name: command.env.get(name) for name in names
    }


@pytest.mark.parametrize(
    ("name", "held", "whole"),
    [
        ("PYTHONPATH", None, "x"),
        ("PYTHONPATH", "", "x"),
        ("PYTHONPATH", "/a:/b", f"x{os.pathsep}/a:/b"),
        ("CONFIGURATOR_PROBE_DIR", "/a", "x"),
        ("SGLANG_PLUGINS", None, None),
        ("SGLANG_PLUGINS", "", None),
        ("SGLANG_PLUGINS", "a", "a,x"),
        ("SGLANG_PLUGINS", " ", " ,x"),
        ("SGLANG_PLUGINS", "a, x", None),
        ("SGLANG_PLUGINS", "xx", "xx,x"),
    ],
)
def test_what_a_variable_held_stays(name: str, held: str | None, whole: str | None) -> None:
    assert joined(name, "x", held) == whole


def test_an_empty_list_allows_every_plugin_and_a_blank_one_none() -> None:
    """As the engine reads it."""
    assert [allows(names, "x") for names in ("", " ", "y", "y , x")] == [True, False, False, True]


def test_the_fingerprint_follows_what_the_probe_gets(tmp_path: Path) -> None:
    marks = {
        fingerprint(deployment(tmp_path, f"evidence: {evidence}\n"))
        for evidence in ("{}", "{require_report: true}", "{instrument: none}", "{level: 2}")
    }
    assert len(marks) == 3  # the level is of the self-check, not of the launch


def test_reports_of_an_earlier_run_are_removed_and_nothing_else(
    tmp_path: Path, free_port: int
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    folder = out / "reports" / "replica-0"
    folder.mkdir(parents=True)
    for name in ("report-tp0-pp0-dp0.json", "report-pid9.json", "hooks-9.json"):
        (folder / name).write_text("{}")
    (folder / "report-folder.json").mkdir()
    for name in ("notes.txt", "my-report-1.json", "report-1.json.bak"):
        (folder / name).write_text("mine")
    other = out / "reports" / "replica-1"
    other.mkdir()
    (other / "report-tp0-pp0-dp0.json").write_text("{}")
    run(out, tools(tmp_path, STUB_MODE="die"))
    kept = {path.name for path in folder.iterdir()}
    assert kept == {"report-folder.json", "notes.txt", "my-report-1.json", "report-1.json.bak"}
    assert (other / "report-tp0-pp0-dp0.json").exists()


def test_only_rank_0_empties_a_folder_that_hosts_may_share() -> None:
    made = resolve(*LIBRARY.profile("muse-spark-open-gb300x8-tp8"), LIBRARY)
    first, second = (file.text for file in TARGETS["bash"](made) if file.path.startswith("replica"))
    assert "  empty_reports\n" in first
    assert "empty_reports" not in second
    assert "REPORTS=${REPORTS_DIR:-$HERE/reports}/replica-0\n" in first
    assert "REPORTS=${REPORTS_DIR:-$HERE/reports}/replica-0\n" in second
    assert "no folder need be shared" in first


def test_reports_go_where_the_operator_wants_them(tmp_path: Path, free_port: int) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n")
    shared = tmp_path / "a shared one"
    env = tools(tmp_path, STUB_MODE="end", STUB_REPORT=str(REPORT["healthy"]))
    code, printed = run(out, env | {"REPORTS_DIR": str(shared)})
    assert code == 5, printed
    assert (shared / "replica-0" / "report-tp0-pp0-dp0.json").exists()
    assert not (out / "reports").exists()


@pytest.mark.parametrize(
    ("report", "verdict", "said"),
    [
        ("healthy", "PROVEN", "the draft's LM head is the target's module"),
        ("sabotaged", "REFUTED", "only the weight is aliased"),
    ],
)
def test_the_report_reaches_the_verdicts(
    tmp_path: Path, free_port: int, report: str, verdict: str, said: str
) -> None:
    """The server answers as a healthy one; what its rank wrote decides."""
    out = rendered(
        tmp_path,
        f"serving: {{port: {free_port}}}\n{REQUIRED}"
        "optimizations:\n  nextn-mtp: {draft: {same_checkpoint: true}}\n  lm-head-shared: {}\n",
    )
    checker = f"{sys.executable} -m configurator"
    env = tools(
        tmp_path, STUB_MODE="recorded", STUB_REPORT=str(REPORT[report]), CONFIGURATOR=checker,
        LC_ALL="C.UTF-8",
    )  # fmt: skip
    _, printed = run(out, env)
    line = next(line for line in printed.splitlines() if " lm-head-shared " in f"{line} ")
    assert verdict in line, printed
    assert said in printed
    assert "no report from inside the engine" not in printed
    (kept,) = (out / "log").glob("evidence-*/replica-0/reports/report-tp0-pp0-dp0.json")
    assert json.loads(kept.read_text())["drafts"]


@pytest.mark.parametrize(
    ("hooks", "why"),
    [
        (None, "the engine did not load the plugin; what starts it must keep PYTHONPATH and SG"),
        ({"error": None}, "the plugin was loaded and made none"),
    ],
)
def test_a_required_report_that_is_missing_fails_the_launch(
    tmp_path: Path, free_port: int, hooks: dict[str, Any] | None, why: str
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n{REQUIRED}")
    more = {}
    if hooks is not None:
        (tmp_path / "hooks.json").write_text(json.dumps(hooks))
        more["STUB_HOOKS"] = str(tmp_path / "hooks.json")
    code, printed = run(out, tools(tmp_path, **more))
    assert code == 1
    assert f"no report from inside the engine in {out}/reports/replica-0: {why}" in printed
    assert "stopped: without a report, which evidence.require_report asks for" in printed
    assert (tmp_path / "checked.json").exists()  # the evidence is kept all the same
    assert not alive(int(str(seen(tmp_path)["pid"])))


@pytest.mark.parametrize(
    ("extra", "mode"), [("", "enforce"), (REQUIRED, "warn")], ids=["not required", "warn"]
)
def test_a_missing_report_is_said_and_the_server_stays(
    tmp_path: Path, free_port: int, extra: str, mode: str
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n{extra}")
    code, printed = run(out, tools(tmp_path, STUB_MODE="end", CONFIGURATOR_CHECK=mode))
    assert code == 5, printed
    assert "no report from inside the engine" in printed


@pytest.mark.parametrize("required", [False, True])
def test_an_interpreter_that_does_not_see_the_plugin(
    tmp_path: Path, free_port: int, required: bool
) -> None:
    out = rendered(tmp_path, f"serving: {{port: {free_port}}}\n" + (REQUIRED if required else ""))
    env = tools(tmp_path, CONFIGURATOR_PREFLIGHT="only", STUB_OPTIONS="-I")
    code, printed = run(out, env)
    assert code == (1 if required else 0)
    said = "python3 does not see the plugin configurator_probe, and the profile requires its report"
    assert (said in printed) is required
    assert ("so there will be no report" in printed) is not required
    assert not (tmp_path / "seen.json").exists()


def test_a_folder_that_was_copied_without_the_probe(tmp_path: Path) -> None:
    out = rendered(tmp_path, "")
    (out / "probe" / "configurator_probe" / "__init__.py").unlink()
    code, printed = run(out, tools(tmp_path, CONFIGURATOR_PREFLIGHT="only"))
    assert code == 1
    assert "probe/configurator_probe/__init__.py is missing; copy the whole folder again" in printed
