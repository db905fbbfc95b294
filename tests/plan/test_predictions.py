"""Runs held against what was predicted of them, and the store that keeps them."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan.deployments import LIBRARY, deployment, shipped

from configurator.errors import ConfiguratorError
from configurator.evidence.model import Evidence
from configurator.evidence.read import read_evidence
from configurator.plan.efficiency import known_as
from configurator.plan.figures import between
from configurator.plan.geometry import geometry_of
from configurator.plan.measured import deployment_of
from configurator.plan.model import Memory
from configurator.plan.observed import observe
from configurator.plan.prediction_errors import errors_of, errors_of_runs, held_out
from configurator.plan.prediction_store import (
    append,
    calibrating,
    read_store,
    this_host,
)
from configurator.plan.predictions import (
    Compared,
    Record,
    launch_digest,
    own_steps,
    record_from,
    record_of,
)
from configurator.plan.store_path import default_store

GPU = "NVIDIA GB10, [N/A], 12.1, 580.95.05"


def meta(tokens: int = 101, step: float = 0.02, first: float = 0.2, **more: Any) -> dict[str, Any]:
    """Counters of an answer that takes `step` seconds a token."""
    return {
        "prompt_tokens": 50, "completion_tokens": tokens, "first_token_latency": first,
        "e2e_latency": first + step * (tokens - 1), **more,
    }  # fmt: skip


def drafted(tokens: int = 101, steps: int = 40, seconds: float = 0.05) -> dict[str, Any]:
    """The same of a speculative one whose steps take `seconds`."""
    return meta(
        tokens, seconds * steps / (tokens - 1),
        spec_verify_ct=steps, spec_num_correct_drafts=tokens - 1 - steps,
        spec_num_proposed_drafts=3 * steps,
    )  # fmt: skip


def recorded(
    folder: Path, answers: list[dict[str, Any]], *, info: dict[str, Any] | None = None,
    log: str = "", together: int | None = None, kind: str = "profile",
) -> Evidence:  # fmt: skip
    """An evidence directory with these answers, read."""
    replica = folder / "replica-0"
    (replica / "requests").mkdir(parents=True)
    for number, each in enumerate(answers, 1):
        held = {
            "path": "/generate", "status": 200, "kind": kind, "together": together,
            "request": {"text": "x"}, "response": {"text": "y", "meta_info": each},
        }  # fmt: skip
        (replica / "requests" / f"{number:03}.json").write_text(json.dumps(held))
    (replica / "server_info.json").write_text(
        json.dumps({"version": "0.5.23", "tp_size": 1, **(info or {})})
    )
    if log:
        (replica / "server.log").write_text(log)
    manifest = {
        "format": 1, "collected_at": "2026-11-30T10:00:00Z",
        "replicas": [{"index": 0, "ready": True}],
        "host": {"gpus": [GPU], "memory_kib": 125 * 1024**2, "engine_seen": True},
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return read_evidence(folder)


def test_a_run_shows_its_speed_acceptance_and_capacity(tmp_path: Path) -> None:
    answers = [drafted(), drafted(), drafted(steps=50)]
    seen = observe(recorded(tmp_path, answers, info={"max_total_num_tokens": 64000}))
    assert seen.host == "1 x NVIDIA GB10, 125 GiB"
    assert seen.version == "0.5.23"
    # 130 verify steps gave 300 tokens after the first of each answer.
    assert seen.accepted == pytest.approx(300 / 130)
    assert seen.per_token == pytest.approx(0.05 * 40 / 100)
    assert seen.speed_from == "3 answers"
    assert (seen.tokens, seen.batch, seen.context, seen.doubts) == (64000, 1, 100, ())


def test_short_answers_warm_ups_and_answers_without_times_tell_no_speed(tmp_path: Path) -> None:
    assert observe(recorded(tmp_path / "a", [meta(tokens=8)])).per_token is None
    assert observe(recorded(tmp_path / "b", [meta()], kind="warm-up")).per_token is None
    bare = {"completion_tokens": 100, "decode_throughput": 201.2}
    assert observe(recorded(tmp_path / "c", [bare])).per_token is None
    backwards = meta() | {"e2e_latency": 0.1}
    assert observe(recorded(tmp_path / "d", [backwards])).per_token is None


LOG = """\
[2026-11-30 10:00:00] Prefill batch, #new-seq: 4, #new-token: 400, #cached-token: 0
[2026-11-30 10:00:01] Decode batch, #running-req: 4, #token: 500, token usage: 0.01, cuda graph: True, gen throughput (token/s): 30.00, #queue-req: 0
[2026-11-30 10:00:02] Decode batch, #running-req: 4, #token: 660, token usage: 0.01, cuda graph: True, gen throughput (token/s): 400.00, #queue-req: 0
[2026-11-30 10:00:03] Decode batch, #running-req: 3, #token: 600, token usage: 0.01, cuda graph: True, gen throughput (token/s): 333.00, #queue-req: 0
[2026-11-30 10:00:04] Decode batch, #running-req: 4, #token: 800, token usage: 0.01, cuda graph: True, gen throughput (token/s): 500.00, #queue-req: 0
"""  # noqa: E501


def test_without_times_the_decode_lines_of_the_log_tell_the_speed(tmp_path: Path) -> None:
    bare = {"completion_tokens": 100, "prompt_tokens": 100}
    seen = observe(recorded(tmp_path, [bare] * 4, log=LOG, together=4))
    # Not the line after the prefill, which counts the pause, nor the one of three.
    assert seen.per_token == pytest.approx((4 / 400 + 4 / 500) / 2)
    assert seen.speed_from == "2 decode lines of the log"
    assert seen.batch == 4


def test_what_limits_or_fakes_a_figure_is_a_doubt(tmp_path: Path) -> None:
    seen = observe(
        recorded(tmp_path, [meta()], info={"max_total_tokens": 4096, "max_total_num_tokens": 4096})
    )
    assert seen.doubts == ("the token capacity was limited by --max-total-tokens",)


def record(folder: Path, evidence: Evidence, name: str = "", **more: Any) -> Record:
    wanted = shipped(name or "ling-3.0-flash-spark-baseline")
    return record_of(wanted, LIBRARY, evidence, geometry_of, memory=None, **more)


def test_a_run_is_held_against_a_prediction_with_its_own_acceptance(tmp_path: Path) -> None:
    found = record(tmp_path, recorded(tmp_path, [drafted()] * 3), "ling-3.0-flash-spark")
    assert (found.accepted, found.batch, found.context) == (2.5, 1, 100)
    compared = {each.quantity: each for each in found.compared}
    assert set(compared) == {"time a token", "step", "throughput"}
    assert compared["step"].measured == pytest.approx(0.05)
    assert compared["time a token"].measured == pytest.approx(0.02)
    assert compared["throughput"].measured == pytest.approx(50)
    assert compared["step"].ratio == pytest.approx(1.02, abs=0.02)
    assert compared["step"].inside
    # It speculates, so it calibrates nothing.
    assert found.plain is None
    assert found.evidence == tmp_path.name


def test_a_token_capacity_is_compared_unless_it_was_limited(tmp_path: Path) -> None:
    tokens = between(90e3, 100e3, 110e3, "tokens", "a test", "a test")
    memory = Memory(tokens, (), True, None, None, tokens, None, None, "")
    wanted = shipped("ling-3.0-flash-spark-baseline")
    free = recorded(tmp_path / "a", [meta()], info={"max_total_num_tokens": 98000})
    found = record_of(wanted, LIBRARY, free, geometry_of, memory=memory)
    assert found.compared[-1] == Compared("token capacity", "tokens", 90e3, 100e3, 110e3, 98000)
    limited = recorded(
        tmp_path / "b", [meta()], info={"max_total_num_tokens": 4096, "max_total_tokens": 4096}
    )
    found = record_of(wanted, LIBRARY, limited, geometry_of, memory=memory)
    assert "token capacity" not in {each.quantity for each in found.compared}
    assert found.doubts


def test_evidence_of_another_launch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match=r"has tensor 2, ling-3.0-flash-spark-baseline has"):
        record(tmp_path, recorded(tmp_path / "a", [meta()], info={"tp_size": 2}))
    with pytest.raises(ConfiguratorError, match=r"drafts, ling-3.0-flash-spark-baseline does not"):
        record(tmp_path, recorded(tmp_path / "b", [drafted()] * 3))
    with pytest.raises(ConfiguratorError, match=r"does not draft, ling-3.0-flash-spark does"):
        record(tmp_path, recorded(tmp_path / "c", [meta()]), "ling-3.0-flash-spark")
    other = {"model_path": "/models/llama-tiny"}
    with pytest.raises(ConfiguratorError, match=r"served llama-tiny, .* has Ling-3\.0-flash-fp4"):
        record(tmp_path, recorded(tmp_path / "d", [meta()], info=other))
    same = {"model_path": "/elsewhere/Ling-3.0-flash-fp4/"}
    assert record(tmp_path, recorded(tmp_path / "e", [meta()], info=same)).compared


def test_a_run_without_figures_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        record(tmp_path, recorded(tmp_path, []))
    problem = caught.value.problems[0]
    assert problem.code == "PLN003"
    assert "no answer with times and no decode line; it says no token capacity" in str(problem)


def test_a_plain_step_of_a_host_calibrates_later_plans_on_it(tmp_path: Path) -> None:
    first = record(tmp_path, recorded(tmp_path, [meta(step=0.028)]))
    assert first.plain is not None
    assert first.plain.seconds == pytest.approx(0.028)
    assert first.plain.apparent == pytest.approx(4.82e9 / (0.028 * 273e9), rel=0.01)
    own = own_steps([first], "1 x NVIDIA GB10, 125 GiB")
    assert own == (first.plain,)
    later = record(
        tmp_path, recorded(tmp_path / "later", [drafted()] * 3), "ling-3.0-flash-spark", own=own
    )
    without = record(
        tmp_path, recorded(tmp_path / "other", [drafted()] * 3), "ling-3.0-flash-spark"
    )
    slower = later.compared[0].value / without.compared[0].value
    assert slower == pytest.approx(0.696 / first.plain.apparent, rel=0.01)


def test_own_steps_are_of_the_host_and_not_of_the_launch_to_predict(tmp_path: Path) -> None:
    first = record(tmp_path, recorded(tmp_path, [meta(step=0.028)]), host="desk")
    again = replace(first, plain=replace(first.plain, seconds=0.03)) if first.plain else first
    assert own_steps([first, again], "desk") == (again.plain,)
    assert own_steps([first], "another") == ()
    assert own_steps([first], "desk", without=first.launch) == ()
    assert own_steps([replace(first, host="")], "") == ()


def test_a_store_calibrates_the_host_it_names_or_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    assert calibrating(path, "dgx-spark") == ()
    run = record(tmp_path, recorded(tmp_path / "run", [meta(step=0.028)]), host="desk")
    append(path, run)
    assert calibrating(path, "dgx-spark", "desk") == (run.plain,)
    assert calibrating(path, "h200", "desk") == ()
    monkeypatch.setattr("configurator.plan.prediction_store.this_host", lambda: "desk")
    assert calibrating(path, "dgx-spark") == (run.plain,)
    monkeypatch.setattr("configurator.plan.prediction_store.this_host", lambda: "laptop")
    assert calibrating(path, "dgx-spark") == ()


def test_this_machine_has_a_name() -> None:
    assert "GiB" in this_host()


def test_the_digest_tells_launches_apart(tmp_path: Path) -> None:
    one = launch_digest(shipped("ling-3.0-flash-spark"))
    assert one == launch_digest(shipped("ling-3.0-flash-spark"))
    assert one != launch_digest(shipped("ling-3.0-flash-spark-baseline"))
    secret = deployment(tmp_path, "serving: {api_key: {env: MY_KEY}}\n")
    assert launch_digest(secret) != launch_digest(deployment(tmp_path))


def example(number: int = 0) -> Record:
    compared = Compared("time a token", "s", 0.9, 1.0, 1.2, 1.1)
    return Record("2026", "mine", f"digest{number}", "0.5.23", "desk", "h200", "qwen3-8b", 1, 100,
                  None, "evidence", (compared,))  # fmt: skip


def kept() -> dict[str, Any]:
    """The example as a line of the store has it."""
    found: dict[str, Any] = json.loads(json.dumps(example().to_json()))
    return found


def test_the_store_keeps_records_privately_and_each_run_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "predictions.jsonl"
    assert read_store(path).records == ()
    assert append(path, example())
    assert append(path, example(1))
    assert not append(path, example())
    assert read_store(path).records == (example(), example(1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_whole_record_comes_back_as_it_was(tmp_path: Path) -> None:
    found = record(tmp_path, recorded(tmp_path, [meta(step=0.028)]))
    path = tmp_path / "store"
    append(path, found)
    assert read_store(path).records == (found,)


def test_broken_lines_are_counted_and_spoil_no_other(tmp_path: Path) -> None:
    path = tmp_path / "store"
    append(path, example())
    with path.open("a") as file:
        file.write('{"date": "2026", "cut o')
    append(path, example(1))
    with path.open("a") as file:
        file.write('[]\n{"date": 5}\n\n' + "[" * 50_000 + "\n\xff\n")
    found = read_store(path)
    assert found.records == (example(), example(1))
    assert found.broken == 5


@pytest.mark.parametrize(
    "change",
    [
        {"compared": []},
        {"compared": [{"quantity": "step", "unit": "s", "low": 2, "value": 1, "high": 3,
                       "measured": 1}]},
        {"compared": [{"quantity": "step", "unit": "s", "low": 1, "value": 1, "high": 3,
                       "measured": 0}]},
        {"batch": "1"},
        {"host": None},
        {"context": True},
    ],
)  # fmt: skip
def test_a_line_that_cannot_be_true_is_no_record(change: dict[str, Any]) -> None:
    assert record_from(kept()) == example()
    assert record_from(kept() | change) is None


def test_a_plain_step_that_cannot_be_true_calibrates_nothing() -> None:
    plain = {"name": "a", "hardware": "h", "model": "m", "host": "desk", "seconds": -1.0,
             "size": 1.0, "bandwidth": 1.0, "layers": 1}  # fmt: skip
    for held in (plain, plain | {"seconds": 1.0, "host": None}, plain | {"layers": None}, 5):
        found = record_from(kept() | {"plain": held})
        assert found is not None
        assert found.plain is None


def test_a_store_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match="cannot be read: is a directory"):
        read_store(tmp_path)
    with pytest.raises(ConfiguratorError, match="cannot be written"):
        append(tmp_path, example())
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ConfiguratorError, match="PLN004"):
        append(pipe, example())
    blocked = tmp_path / "file" / "store"
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfiguratorError, match="cannot be written"):
        append(blocked, example())


def test_the_default_store_is_in_the_users_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_store() == tmp_path / "configurator" / "predictions.jsonl"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_store() == tmp_path / ".local/state/configurator/predictions.jsonl"


def test_errors_are_of_each_quantity() -> None:
    values = [
        Compared("step", "s", 0.9, 1.0, 1.1, 1.0),
        Compared("step", "s", 0.9, 1.0, 1.1, 2.0),
        Compared("step", "s", 0.9, 1.0, 1.1, 0.8),
        Compared("token capacity", "tokens", 9, 10, 11, 10),
    ]
    steps, capacity = errors_of(values)
    assert (steps.quantity, steps.count, steps.median, steps.worst) == ("step", 3, 1.0, 0.5)
    assert steps.inside == 1
    assert (capacity.count, capacity.median, capacity.inside) == (1, 1.0, 1)
    assert errors_of_runs([example()])[0].median == pytest.approx(1 / 1.1)
    assert errors_of([]) == ()


def test_a_launch_timed_with_and_without_speculation_has_a_break_even() -> None:
    held = [each for each in held_out(LIBRARY, geometry_of) if each.compared.unit == ""]
    assert [each.measurement.name for each in held] == [
        "qwen3-4b-fp8-head-nextn-h200-c1", "qwen3-4b-fp8-head-nextn-h200-c8",
        "qwen3-4b-nextn-h200-c1", "qwen3-4b-nextn-h200-c8",
        "qwen3-8b-nextn-h200-c1", "qwen3-8b-nextn-h200-c4",
    ]  # fmt: skip
    assert held[4].compared.measured == pytest.approx(9.67 / 5.40)
    assert held[2].compared.measured == pytest.approx(1.486 * 4 / 3.46)
    # Each of the two models by rounds of the other.
    unseen = held_out(LIBRARY, geometry_of, whole_model=True)
    for each in (*held, *(each for each in unseen if each.compared.unit == "")):
        assert each.compared.inside
        assert 0.9 < each.compared.ratio < 1.2


def test_every_measurement_is_predicted_by_others_alone() -> None:
    held = held_out(LIBRARY, geometry_of)
    assert {each.measurement.name for each in held} == set(LIBRARY.names("measurement"))
    for each in held:
        assert each.measurement.name not in each.rests_on
        series = {LIBRARY.measurement(name).series for name in each.rests_on}
        assert each.measurement.series is None or each.measurement.series not in series
    unseen = held_out(LIBRARY, geometry_of, whole_model=True)
    for each in unseen:
        assert not [n for n in each.rests_on if _model(n) == _model(each.measurement.name)]


def _model(measurement: str) -> str:
    return known_as(deployment_of(LIBRARY.measurement(measurement), LIBRARY).model)


def test_overrides_of_depth_or_width_make_another_model() -> None:
    names = ("qwen3-8b-h200-c1", "qwen3-8b-fp8-h200-c1", "qwen3-4b-h200-c1")
    assert [_model(name) for name in names] == [
        "qwen3-8b 36 x 4096", "qwen3-8b 36 x 4096", "qwen3-8b 36 x 2560",
    ]  # fmt: skip


def test_the_published_error_of_predictions_is_no_worse_than_the_page_says() -> None:
    held = held_out(LIBRARY, geometry_of)
    on_spark = [each for each in held if each.measurement.hardware == "dgx-spark"]
    assert len(on_spark) == 6
    assert all(0.7 < each.compared.ratio < 1.3 for each in on_spark)
    assert all(each.compared.inside for each in on_spark)
    every = errors_of(each.compared for each in held)[0]
    assert 0.9 < every.median < 1.1
    assert 0.5 < every.worst < 1.8
    assert every.count - every.inside <= 1
