"""`configurator claims`: the library, a deployment held against it, and unusable input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from configurator.cli import run
from configurator.content import ROOT

Capture = pytest.CaptureFixture[str]


def output(argv: list[str], capsys: Capture) -> str:
    assert run(argv) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def words(argv: list[str], capsys: Capture) -> str:
    return " ".join(output(argv, capsys).split())


def data(argv: list[str], capsys: Capture) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output([*argv, "--format", "json"], capsys))
    return found


def test_the_library_shows_conditions_and_what_is_not_stated(capsys: Capture) -> None:
    told = words(["claims"], capsys)
    assert (
        "decode of one GSM8K request with the research kernels with model: muse-spark-open-nvfp4; "
        "hardware: NVIDIA GB300; gpus: 8; tensor: 8; replicas: 1; batch size: 1; concurrency: 1; "
        "workload: one request: GSM8K;"
    ) in told
    assert (
        "not stated hosts, sampling, engine by the authors of the kernels; sample: 1 request, "
        "20 steps; not reproduced by others; The article on Muse Spark Open on eight GB300s; "
        "no date but No batching"
    ) in told
    assert (
        "1,109 tok/s decode throughput; median of 20 decode steps; against 517 tok/s; Not "
        "to be scaled to tensor 4 nor doubled for two replicas [muse-megakernel-decode-1109]"
    ) in told
    # What a figure does not share with its run.
    assert (
        "1.45 ms time per output token, 4 steps and 5 tokens; steps: 4; verify width: 5 "
        "[ling-floor-sweep-4-tpot-1.45]"
    ) in told
    assert "139 tok/s decode throughput per GPU; computed: 1,109 tok/s / 8 GPUs" in told


def test_the_library_shows_what_agrees_and_what_does_not(capsys: Capture) -> None:
    told = words(["claims"], capsys)
    assert (
        "agrees throughput x step time = tokens accepted: 1,109 tok/s x 5.9 ms = 6.543 tokens "
        "against 6.6 tokens: 0.9 % off, 3 % allowed"
    ) in told
    assert (
        "DIFFERS what both gains leave for Humming and FP8 head (1 + 42.5 %) / (2.68 tokens / "
        "about 2.26) = 1.202 against (1 + 185.1 %) / (3.9 tokens / about 2.26) = 1.652: 27.3 % "
        "off, 10 % allowed One cost ratio cannot hold for both workloads"
    ) in told
    assert (
        "DIFFERS storage of the LM head in the checkpoint of Ling-3.0-flash-fp4 - BF16: UPSTREAM.md"
    ) in told
    assert told.endswith("relations between them 10 do not hold")


def test_lines_fit_the_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    for argv in (["claims"], ["claims", "ling-3.0-flash-spark"]):
        for line in output(argv, capsys).splitlines():
            assert len(line) <= 100, line


def test_a_deployment_is_told_which_apply(capsys: Capture) -> None:
    told = words(["claims", "ling-3.0-flash-spark"], capsys)
    assert told.startswith("ling-3.0-flash-spark published figures of its model: ")
    apply, _, rest = told.partition(" nearly apply humming-nextn")
    nearly, _, not_at_all = rest.partition(" do not apply ")
    assert "if workload: GSM8K not stated engine by ly01325, not reproduced by others" in apply
    assert "53.89 tok/s decode throughput with Humming" in apply
    assert "differs temperature: 0 there, 0.6 here if workload: 32K tokens in, 2K out" in nearly
    assert "+185.1 % gain in decode throughput on a synthetic load" in nearly
    assert "differs in effect: not lm-head-shared there, lm-head-shared here 24.0 tok/s" in (
        not_at_all
    )
    assert "1,109 tok/s" not in told
    assert "figures of other models are left out; --format json has them" in told


def test_the_megakernel_run_is_not_carried_to_tensor_4(capsys: Capture) -> None:
    told = words(["claims", "muse-spark-open-gb300x8"], capsys)
    assert "[unverified: nobody has yet run this composition as a whole]" in told
    _, _, rest = told.partition(" do not apply ")
    assert "differs tensor: 8 there, 4 here; replicas: 1 there, 2 here;" in rest
    assert "1,109 tok/s decode throughput; median of 20 decode steps [muse-meg" in rest
    assert "agrees throughput x step time = tokens accepted: 1,109 tok/s x 5.9 ms" in rest


def test_json_of_the_library_is_complete(capsys: Capture) -> None:
    found = data(["claims"], capsys)
    assert set(found) == {"claims", "consistency", "conflicts", "exit_code"}
    by_id = {claim["id"]: claim for claim in found["claims"]}
    assert len(by_id) == len(found["claims"]) >= 200
    claim = by_id["ling-community-tpot-9.6"]
    assert (claim["value"], claim["to"], claim["unit"]) == (9.6, 39.9, "ms")
    claim = by_id["muse-megakernel-decode-1109"]
    assert claim["baseline"] == "muse-ordinary-decode-517"
    assert claim["sample"] == {"requests": 1, "steps": 20}
    assert claim["conditions"]["tensor"] == 8
    assert claim["not_stated"] == ["hosts", "sampling", "engine"]
    assert by_id["ling-cell-dspark-c1-tpot-9.48"]["reproduced"] == "contradicted"
    (rest,) = [c for c in found["consistency"] if c["kind"] == "rest"]
    assert (round(rest["left"], 3), round(rest["right"], 3), rest["holds"]) == (1.202, 1.652, False)
    assert len(found["conflicts"]) == 4


def test_json_of_a_deployment_has_every_claim_with_both_values(capsys: Capture) -> None:
    found = data(["claims", "muse-spark-open-gb300x8"], capsys)
    assert (found["deployment"], found["status"]) == ("muse-spark-open-gb300x8", "unverified")
    everything = data(["claims"], capsys)["claims"]
    assert {c["id"] for c in found["claims"]} == {c["id"] for c in everything}
    (claim,) = [c for c in found["claims"] if c["id"] == "muse-megakernel-decode-1109"]
    assert claim["match"]["status"] == "does not"
    assert claim["match"]["differs"][0] == {
        "condition": "tensor", "there": "8", "here": "4", "decides": True,
    }  # fmt: skip
    assert claim["value"] == 1109
    other = [c for c in found["claims"] if c["match"]["other_model"]]
    assert {c["match"]["status"] for c in other} == {"does not"}


@pytest.mark.parametrize(
    ("argv", "fact"),
    [
        (["claims", "ling-3.0-flash-sparc"], "did you mean 'ling-3.0-flash-spark"),
        (["claims", "./absent.yaml"], "cannot read"),
        (["claims", "a", "b"], "unexpected extra argument"),
        (["claims", "--format", "xml"], "'xml' is not one of"),
        (["explain", "muse-megakernel-decode-1108"], "did you mean 'muse-megakernel-decode-1109'"),
    ],
)
def test_unusable_input_is_exit_2(argv: list[str], fact: str, capsys: Capture) -> None:
    assert run(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert fact in " ".join(captured.err.split())
    assert "Traceback" not in captured.err


def test_a_users_claim_without_source_is_exit_2(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "profiles" / "claims" / "mine.yaml"
    path.parent.mkdir(parents=True)
    text = (
        "apiVersion: configurator/v1\nkind: Claims\nname: mine\nsummary: Mine\nruns:\n  one:\n"
        "    summary: A run\n"
        "    conditions: {model: qwen3-8b, hardware: NVIDIA H200, gpus: 1, tensor: 1, "
        "concurrency: 8, workload: {kind: dataset, text: GSM8K, sampling: {temperature: 1}}, "
        "mechanisms: []}\n"
        "    measured_by: me\n    reproduced: no\n{source}claims:\n"
        "  - {id: mine-1, run: one, quantity: TPOT, figure: time a token, value: 5, unit: ms}\n"
    )
    path.write_text(text.replace("{source}", ""))
    assert run(["claims", "--content", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "mine.yaml:6:3: SCH006 'runs.one.source' is missing; add it" in error

    path.write_text(text.replace("{source}", "    source: my notes\n"))
    told = words(
        ["claims", str(ROOT / "examples" / "qwen3-8b-h200.yaml"), "--content", str(tmp_path)],
        capsys,
    )
    assert "5 ms time a token" in told
    # No relation and no conflict of its publication: no heading above nothing.
    assert "do they agree" not in told


def test_a_claim_is_explained(capsys: Capture) -> None:
    told = output(["explain", "ling-three-optimizations-42.5-percent"], capsys)
    assert told.startswith("ling-three-optimizations-42.5-percent (published figure, gain)\n")
    assert "  - temperature: 0.6\n" in told
    assert "  - Sample: 1,319 requests\n" in told
    assert "Not stated:\n  - engine\n" in told
    assert "Agrees:\n  - gain in throughput: 53.89 tok/s / 37.81 tok/s = 1.425" in told
    assert "Does not agree:\n  - what both gains leave for Humming and FP8 head: " in told
    derived = output(["explain", "muse-derived-per-gpu-139"], capsys)
    assert "(computed from published figures, decode throughput)" in derived
    assert "  - Formula: 1,109 tok/s / 8 GPUs\n" in derived
    base = output(["explain", "ling-three-optimizations-53.89"], capsys)
    assert "Compared with: 37.81 tok/s, decode throughput without the three" in base
    assert output(["explain", "ling-cell-dspark-c1-tpot-9.48"], capsys).count("contradicted") == 1


def test_a_mechanism_names_its_figures(capsys: Capture) -> None:
    told = output(["explain", "lm-head-shared"], capsys)
    assert "Published figures:\n" in told
    assert (
        "  - 24.0 tok/s, decode throughput with FP8 LM head and MTP when the head's module is not "
        "shared (ling-unshared-head-24.0)\n"
    ) in told


def test_claims_are_listed(capsys: Capture) -> None:
    told = output(["list", "claims"], capsys)
    assert "muse-megakernel-decode-1109" in told
    assert "1,109 tok/s, decode throughput\n" in told
    assert len(told.splitlines()) >= 200
