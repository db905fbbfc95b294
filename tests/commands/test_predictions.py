"""`configurator predictions`: the error of predictions, and runs that are added."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plan.test_predictions import meta, recorded

from configurator.cli import run
from configurator.content import ROOT

Capture = pytest.CaptureFixture[str]


def test_the_error_against_all_measurements_is_published(tmp_path: Path, capsys: Capture) -> None:
    assert run(["predictions", "--store", str(tmp_path / "none")]) == 0
    text = capsys.readouterr().out
    assert "Measurements of the content, each predicted without itself and its series:" in text
    assert "as if its model had never been measured" in text
    assert "ling-3.0-flash-fp4-spark-baseline" in text
    assert "none yet; add one: configurator predictions --add PROFILE EVIDENCE_DIR" in text
    assert not (tmp_path / "none").exists()


def test_the_page_says_what_was_missed_and_by_how_much(tmp_path: Path, capsys: Capture) -> None:
    asked = ["predictions", "--store", str(tmp_path / "none"), "--format", "json"]
    assert run(asked) == 0
    data = json.loads(capsys.readouterr().out)
    page = " ".join((ROOT / "docs" / "plan-step.md").read_text().split())
    times = [each for each in data["measurements"]["each"] if each["unit"] == "s"]
    missed = {each["name"] for each in times if not 1 / 1.4 < each["ratio"] < 1.4}
    assert f"Three of the {len(times)} times are missed by more than 1.4 times" in page
    assert len(missed) == 3
    assert all(f"(`{name}`)" in page for name in missed)
    never = {each["name"]: each["ratio"] for each in data["models_never_measured"]["each"]}
    spark = [never[f"ling-3.0-flash-fp4-spark-{name}"] for name in ("baseline", "optimized")]
    assert max(abs(ratio - 1) for ratio in spark) == pytest.approx(0.09, abs=0.005)
    assert never["ling-3.0-flash-fp4-spark-unshared-head"] == pytest.approx(1.16, abs=0.005)
    assert "first two is still within 9 %, that of the third within 16 %" in page
    two = {name: ratio for name, ratio in never.items() if "-tp2-" in name}
    assert len(two) == 6
    assert max(two.values()) < 0.7
    ones = [ratio for name, ratio in two.items() if name.endswith("-c1")]
    assert (min(ones), max(ones)) == pytest.approx((0.31, 0.36), abs=0.005)
    assert "one request at 0.31 to 0.36 of what was measured" in page


def test_a_measurement_that_cannot_count_is_named(tmp_path: Path, capsys: Capture) -> None:
    entry = "apiVersion: configurator/v1\nkind: {}\nname: {}\nsummary: mine\n"
    for kind, name, more in (
        ("Model", "bare", "repository: me/bare\narchitecture: LlamaForCausalLM\n"),
        ("Measurement", "bare-c1", "hardware: h200\nmodel: bare\ntpot_ms: 1\nmeasured_by: me\n"
         "conditions: {engine: mine}\nsources: [mine]\n"),
    ):  # fmt: skip
        path = tmp_path / f"profiles/{kind.lower()}s/{name}.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(entry.format(kind, name) + more)
    own = ["--content", str(tmp_path), "--store", str(tmp_path / "none")]
    assert run(["predictions", *own]) == 0
    out, err = capsys.readouterr()
    assert "bare-c1" not in out
    assert err == "measurement bare-c1 counts for nothing: give model entry bare its shape\n"


def test_a_run_is_added_once_and_counts(tmp_path: Path, capsys: Capture) -> None:
    recorded(tmp_path / "evidence", [meta(step=0.028)] * 3, info={"max_total_num_tokens": 10**6})
    store = tmp_path / "store"
    asked = ["predictions", "--store", str(store), "--format", "json"]
    adding = [*asked, "--add", "ling-3.0-flash-spark-baseline", str(tmp_path / "evidence")]
    assert run([*adding, "--host", "desk"]) == 0
    first = capsys.readouterr()
    assert first.err == "added\n"
    assert run([*adding, "--host", "desk"]) == 0
    second = capsys.readouterr()
    assert second.err == "the store already has this run\n"
    data = json.loads(second.out)
    assert data["schema"] == "configurator/predictions/1"
    errors = {each["quantity"]: each for each in data["runs"]["errors"]}
    assert errors["time a token"]["n"] == 1
    assert errors["token capacity"]["n"] == 1
    assert errors["time a token"]["median"] == pytest.approx(25.4 / 28, abs=0.01)
    assert errors["time a token"]["inside"] == 1
    assert data["runs"]["each"][0]["host"] == "desk"
    all_times = [each for each in data["measurements"]["each"] if each["unit"] == "s"]
    assert data["measurements"]["errors"][0]["n"] == len(all_times) > 20
    assert data["models_never_measured"]["errors"][0]["n"] == data["measurements"]["errors"][0]["n"]


def test_the_store_shows_its_runs_to_people(tmp_path: Path, capsys: Capture) -> None:
    recorded(tmp_path / "evidence", [meta(step=0.1)] * 3)
    store = tmp_path / "store"
    add = ["--add", "ling-3.0-flash-spark-baseline", str(tmp_path / "evidence")]
    assert run(["predictions", "--store", str(store), *add]) == 0
    with store.open("a") as file:
        file.write("torn\n")
    assert run(["predictions", "--store", str(store)]) == 0
    text = capsys.readouterr().out
    assert "ling-3.0-flash-spark-baseline on 1 x NVIDIA GB10, 125 GiB, batch 1" in text
    assert "measured 100 ms, predicted 25." in text
    assert ", outside" in text
    assert "1 lines are no records and were passed over" in text


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        (["--host", "desk"], "--host goes with --add"),
        (["--add", "ling-3.0-flash-spark", "/nowhere"], "EVD001"),
        (["--add", "ling-3.0", "/nowhere"], "no deployment is named 'ling-3.0'"),
        (["--add", "ling-3.0-flash-spark"], "requires 2 arguments"),
        (["--store", "/"], "is a directory"),
        (["--store", "/dev/null"], "PLN004"),
    ],
)
def test_bad_input_is_refused(argv: list[str], fact: str, capsys: Capture) -> None:
    assert run(["predictions", *argv]) == 2
    assert fact in capsys.readouterr().err


def test_a_plain_step_of_this_host_calibrates_later_plans(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    recorded(tmp_path / "evidence", [meta(step=0.028)] * 3)
    add = ["--add", "ling-3.0-flash-spark-baseline", str(tmp_path / "evidence")]
    assert run(["predictions", *add, "--host", "desk"]) == 0
    capsys.readouterr()

    def rests_on(*more: str) -> list[str]:
        assert run(["plan", "ling-3.0-flash-spark", "--format", "json", *more]) == 0
        efficiency = json.loads(capsys.readouterr().out)["step"]["efficiency"]
        found: list[str] = efficiency["rests_on"]
        return found

    mine = ["ling-3.0-flash-spark-baseline (evidence)"]
    others = ["ling-3.0-flash-fp4-spark-off-c1"]
    assert rests_on("--host", "desk") == mine
    monkeypatch.setattr("configurator.plan.prediction_store.this_host", lambda: "laptop")
    assert rests_on() == others
    monkeypatch.setattr("configurator.plan.prediction_store.this_host", lambda: "desk")
    assert rests_on() == mine
