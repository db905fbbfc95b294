"""`configurator plan`: options, forms, exit codes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from configurator.cli import run
from configurator.content import ROOT
from configurator.demo.server import RecordedServer, recording
from configurator.kerneltests.model import Measured, Result
from configurator.kerneltests.store import keep
from configurator.plan.store_path import default_figures

Capture = pytest.CaptureFixture[str]
LING = "ling-3.0-flash-spark"
DEPLOYMENTS = sorted(path.stem for path in (ROOT / "profiles/deployments").glob("*.yaml"))
HEAD = "apiVersion: configurator/v1\nkind: Deployment\nname: mine\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture(scope="module")
def server() -> Iterator[RecordedServer]:
    with RecordedServer(recording("healthy")) as running:
        yield running


def document(capsys: Capture, *words: str, code: int = 0) -> dict[str, object]:
    assert run(["plan", *words, "--format", "json"]) == code
    data: dict[str, object] = json.loads(capsys.readouterr().out)
    assert data["exit_code"] == code
    return data


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_shipped_deployment_is_planned(name: str, capsys: Capture) -> None:
    code = run(["plan", name])
    out, err = capsys.readouterr()
    assert code in (0, 1)
    assert err == ""
    first, second = out.splitlines()[:2]
    assert first.startswith(f"{name} on ")
    word = {0: ("fits: ", "cannot be told whether it fits: "), 1: ("does not fit: ",)}[code]
    assert second.startswith(word)


def test_what_validation_refuses_is_named_with_the_command(capsys: Capture) -> None:
    run(["plan", "ling-3.0-flash-spark-upstream"])
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "validation refuses it (HEAD102, HEAD103, HEAD104): configurator validate "
        "ling-3.0-flash-spark-upstream" in said
    )
    run(["plan", LING])
    assert "validation refuses" not in capsys.readouterr().out


def test_figures_of_other_models_are_counted_apart(capsys: Capture, folder: Path) -> None:
    run(["plan", LING])
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r"of its model: \d+ apply, \d+ nearly do, \d+ do not \(all, .*\); \d+ are", said
    )
    profile = folder / "mine.yaml"
    model = (
        "engine: {version: 0.5.23}\nhardware: {name: h200, gpus: 1}\nmodel: {name: unspecified}\n"
    )
    profile.write_text(HEAD + model)
    run(["plan", str(profile)])
    said = " ".join(capsys.readouterr().out.split())
    assert "published figures: none is of this model; " in said
    assert "do not (all," not in said


def test_two_plans_that_do_not_fit_say_so(capsys: Capture, folder: Path) -> None:
    for name, batch in (("one", 1), ("two", 2)):
        (folder / f"{name}.yaml").write_text(
            HEAD.replace("mine", name)
            + "engine: {version: 0.5.23}\nhardware: {name: h200, gpus: 1}\n"
            + f"model: {{name: minimax-m2.7}}\nworkload: {{concurrency: {batch}}}\n"
        )
    assert run(["plan", "./one.yaml", "./two.yaml"]) == 1
    err = capsys.readouterr().err
    assert err.splitlines() == [
        "one does not fit; its own plan says by how much",
        "two does not fit; its own plan says by how much",
    ]
    assert run(["plan", LING, "ling-3.0-flash-spark-baseline"]) == 0
    assert capsys.readouterr().err == ""


def test_caches_that_are_not_known_are_the_reason_why_it_cannot_be_told(
    capsys: Capture, folder: Path
) -> None:
    (folder / "mine.yaml").write_text(
        HEAD + "engine: {version: 0.5.23}\nhardware: {name: h200, gpus: 1}\n"
        "model: {name: unspecified, overrides: {weights_gb: 80}}\n"
    )
    assert run(["plan", "./mine.yaml"]) == 0
    second = " ".join(capsys.readouterr().out.split()).split("cannot be told whether it fits: ")[1]
    assert "not say" in second.partition("decode of")[0]
    assert "the engine's own choice" not in second.partition("decode of")[0]


def test_batch_context_acceptance_and_experts_are_taken(capsys: Capture) -> None:
    def step(*words: str) -> dict[str, object]:
        found = document(capsys, LING, *words)["step"]
        assert isinstance(found, dict)
        return found

    plain = step()
    assert plain["accepted"] is plain["per_token"] is None
    asked = step("--accepted", "2.68", "--batch", "4", "--context", "8192")
    assert (asked["batch"], asked["context"]) == (4, 8192)
    accepted, token = asked["accepted"], asked["per_token"]
    assert isinstance(accepted, dict)
    assert isinstance(token, dict)
    assert accepted["value"] == 2.68
    assert 0 < token["low"] < token["value"] < token["high"]
    few = step("--experts", "10")["step"]
    many = plain["step"]
    assert isinstance(few, dict)
    assert isinstance(many, dict)
    assert few["value"] < many["value"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "Missing argument 'PROFILE'"),
        (["no-such-profile"], "REF001"),
        ([LING, "--accepted", "9"], "PLN001"),
        ([LING, "--accepted", "0.5"], "x>=1"),
        ([LING, "--batch", "0"], "x<=65536"),
        ([LING, "--plot", "plan.jpg"], "ends in .svg or .png"),
        ([LING, "--plot", "no/such/folder/x.svg"], "No such file or directory"),
        ([LING, LING, "--running", "evidence"], "give one of PROFILE_B and --running"),
        ([LING, LING, "--plot", "x.svg"], "are for one profile"),
        ([LING, "--running", "no-evidence"], "EVD001"),
        ([LING, "no-such-profile"], "REF001"),
    ],
)
def test_unusable_input_is_exit_code_2(words: list[str], says: str, capsys: Capture) -> None:
    assert run(["plan", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_broken_profile_is_told_with_its_place(folder: Path, capsys: Capture) -> None:
    (folder / "mine.yaml").write_text(f"{HEAD}extends: {LING}\nmemory: {{fraction: 1}}\n")
    assert run(["plan", "./mine.yaml"]) == 2
    assert "mine.yaml:5:10: SCH005" in capsys.readouterr().err.replace(f"{folder}/", "")


def test_pictures_and_the_page_are_written(folder: Path, capsys: Capture) -> None:
    words = ["plan", LING, "--plot", "plan.svg", "--html", "plan.html"]
    assert run(words) == 0
    svg = (folder / "plan.svg").read_text()
    assert svg.startswith("<svg ")
    assert svg.split("<style>")[0] in (folder / "plan.html").read_text()
    assert run(["plan", LING, "--plot", "plan.png"]) == 0
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.startswith(f"{LING} on dgx-spark")


def test_a_png_without_its_library_is_unusable(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    assert run(["plan", LING, "--plot", "plan.png"]) == 2
    assert "serving-configurator[plot]" in capsys.readouterr().err
    assert not (folder / "plan.png").exists()


def test_two_profiles_show_only_what_differs(capsys: Capture) -> None:
    assert run(["plan", LING, "ling-3.0-flash-spark-baseline"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "--moe-runner-backend humming -> flashinfer_mxfp4" in out
    assert "--context-length" not in out
    assert run(["plan", LING, LING]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "no difference"


def test_a_recording_and_a_running_server_say_the_same(
    server: RecordedServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = document(capsys, LING, "--running", str(recording("healthy")))
    monkeypatch.setenv("THE_KEY", "abcdefghijkl")
    live = document(capsys, LING, "--running", server.url, "--api-key-env", "THE_KEY")
    assert live["second"] == server.url

    def memory(data: dict[str, object]) -> dict[str, object]:
        differences = data["differences"]
        assert isinstance(differences, list)
        return {d["name"]: d["second"]["value"] for d in differences if d["section"] == "memory"}

    assert memory(live) == memory(kept)
    assert memory(kept)["token capacity"] == 4096


def test_a_server_that_is_not_there_is_unusable(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "abcdefghijkl")
    words = ["plan", LING, "--running", "http://127.0.0.1:9", "--api-key-env"]
    assert run([*words, "THE_KEY"]) == 2
    err = capsys.readouterr().err
    assert "PLN006 http://127.0.0.1:9 says nothing of itself: " in err
    assert run([*words, "NOT_SET"]) == 2
    assert "COL002 the secret in variable NOT_SET cannot be used" in capsys.readouterr().err


def test_a_host_that_nothing_is_kept_of_is_unusable(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    assert run(["plan", LING, "--host", "mine"]) == 2
    assert "PLN007 no plain step of host 'mine' is kept" in capsys.readouterr().err


def test_a_host_that_reads_slower_than_its_entry_says_is_planned_as_it_is(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    rate = Measured(value=136.5, unit="GB/s", low=130, high=140, runs=9)
    gpu = (("gpu", "NVIDIA GB10"),)
    seen = Result("host-ceilings", "ok", "", 1.0, (), (("read_gb_s", rate),), gpu)
    usual = document(capsys, LING)["step"]
    assert keep(default_figures(), [seen])
    slow = document(capsys, LING)["step"]
    assert isinstance(usual, dict)
    assert isinstance(slow, dict)
    share = slow["efficiency"]["share"]
    assert (share["low"], share["value"], share["high"]) == (0.5, 0.5, 0.5)
    assert share["source"].endswith("self-test host-ceilings of this host")
    assert slow["plain"]["value"] > 1.3 * usual["plain"]["value"]
    # Another machine is not what was measured.
    other = document(capsys, "muse-spark-open-gb300x8")["step"]
    assert isinstance(other, dict)
    assert "self-test" not in other["efficiency"]["share"]["source"]
    default_figures().write_text("{}")
    assert run(["plan", LING]) == 2
    assert "KRN002" in capsys.readouterr().err


def test_what_a_run_showed_is_what_it_is_compared_at(capsys: Capture) -> None:
    data = document(capsys, LING, "--running", str(recording("healthy")))
    differences = data["differences"]
    assert isinstance(differences, list)
    step = {d["name"]: (d["first"], d["second"]) for d in differences if d["section"] == "step"}
    ours, theirs = step["accepted a step"]
    assert ours["value"] == theirs["value"] == 4
    ours, theirs = step["a token takes"]
    assert ours["unit"] == theirs["unit"] == "s"
    assert theirs["source"] == "13 answers"


def test_a_second_opinion_that_there_is_not_is_one_line(capsys: Capture) -> None:
    assert run(["plan", LING, "--second-opinion"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("second opinion: aisimulate")
    assert lines[at + 1] == "  - it has no data of dgx-spark"
    assert run(["plan", LING]) == 0
    assert "aisimulate" not in capsys.readouterr().out


def test_the_page_of_a_check_has_the_plan(folder: Path, capsys: Capture) -> None:
    words = ["check", LING, "--replay", str(recording("healthy")), "--format", "html"]
    run([*words, "-o", "check.html"])
    page = (folder / "check.html").read_text()
    assert '<h2 id="plan">Plan</h2>' in page
    assert "Plan of ling-3.0-flash-spark" in page
    words = ["check", "--expect", "draft-used", "--replay", str(recording("healthy"))]
    run([*words, "--format", "html", "-o", "check.html"])
    assert '<h2 id="plan">' not in (folder / "check.html").read_text()
