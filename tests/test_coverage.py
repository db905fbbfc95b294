"""Whether evidence speaks of every rank: of which ranks each source does, and what is missing."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from configurator.coverage import coverage_of
from configurator.evidence.metrics import parse_metrics
from configurator.evidence.model import (
    Evidence,
    Exchange,
    Graphs,
    LogLine,
    ModelReport,
    MoeLayer,
    Replica,
    Report,
    ServerState,
)
from configurator.evidence.trace_model import Kernel, Ran, Trace, TraceStep
from configurator.judge import expectation_from, judge
from configurator.loader import Validators
from configurator.verdicts import Observation, Rung, Verdict, inconclusive, proven, refuted

STAMP = "2026-11-30 09:00:00"
TP4: dict[str, Any] = {"tp_size": 4}
TP2: dict[str, Any] = {"tp_size": 2}
DP2: dict[str, Any] = {"dp_size": 2}
PP2: dict[str, Any] = {"pp_size": 2}


def log(*texts: str, ranks: tuple[str, ...] = ("TP0",)) -> tuple[LogLine, ...]:
    """Every text as every one of the ranks logs it."""
    lines = [f"[{STAMP} {rank}] {text}" for rank in ranks for text in texts]
    return tuple(LogLine(number, line) for number, line in enumerate(lines, 1))


def verdict(validators: Validators, asked: str, info: dict[str, Any], **more: Any) -> Verdict:
    replica = Replica(0, ServerState("ready"), server_info=info, **more)
    wanted = [expectation_from(asked, validators.probes)]
    return judge(wanted, Evidence("somewhere", (replica,)), validators).verdicts[0]


def said(found: Verdict) -> tuple[str, str]:
    return str(found.answer), str(found.rung)


def text(found: Verdict) -> str:
    return found.summary.partition("; but ")[2]


TP = ("TP0", "TP1", "TP2", "TP3")
RUNS = "NVIDIA megakernel: ling runs the decode graphs of batch sizes [1, 2] (2 of 2); every"
ACTIVE = "NVIDIA megakernel: active (ling)"
BEGIN = "Capture target decode CUDA graph begin. bs=[1, 2, 4, 8], avail mem=9 GB"
END = "Capture target decode CUDA graph end. elapsed=1 s"
OF_THE_LOG = [
    ("nvidia-megakernel", (RUNS,), "captured"),
    ("kv-cache-dtype=fp8_e4m3", ("KV Cache is allocated. dtype: torch.float8_e4m3fn",), "built"),
    ("moe-runner=humming", ("Preparing x MXFP4 experts for Humming backend",), "built"),
    ("moe-runner=humming", ("Using grouped gemm for humming moe",), "executed"),
    ("moe-runner=triton", ("Fp8MoEMethod has no cutlass path; using triton",), "built"),
    ("moe-runner=triton", ("Using 'triton' Fp8 MoE backend out of potential backends: []",),
     "built"),
    ("decode-cuda-graphs=8", (BEGIN, END), "captured"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "lines", "rung"), OF_THE_LOG)
def test_a_line_of_the_log_speaks_of_the_rank_that_wrote_it(
    validators: Validators, asked: str, lines: tuple[str, ...], rung: str
) -> None:
    one = verdict(validators, asked, TP4, log=log(*lines))
    assert said(one) == ("INCONCLUSIVE", rung)
    assert text(one) == "nothing was seen of tensor parallel ranks 1, 2, 3"
    two = verdict(validators, asked, TP4, log=log(*lines, ranks=("TP0", "TP2")))
    assert text(two) == "nothing was seen of tensor parallel ranks 1, 3"
    assert said(verdict(validators, asked, TP4, log=log(*lines, ranks=TP))) == ("PROVEN", rung)
    bare = tuple(LogLine(1 + index, f"[{STAMP}] {line}") for index, line in enumerate(lines))
    assert said(verdict(validators, asked, {"tp_size": 1}, log=bare)) == ("PROVEN", rung)
    assert said(verdict(validators, asked, TP4, log=bare)) == ("INCONCLUSIVE", rung)


def test_two_lines_of_one_rank_are_not_two_ranks(validators: Validators) -> None:
    lines = log(ACTIVE, "NVIDIA megakernel: active (draft)", RUNS)
    one = verdict(validators, "nvidia-megakernel", TP2, log=lines)
    assert (said(one), text(one)) == (
        ("INCONCLUSIVE", "captured"),
        "nothing was seen of tensor parallel rank 1",
    )


def test_a_lower_rung_of_a_rank_is_not_the_one_that_is_needed(validators: Validators) -> None:
    lines = (*log(RUNS), LogLine(9, f"[{STAMP} TP1] {ACTIVE}"))
    assert said(verdict(validators, "nvidia-megakernel", TP2, log=lines))[0] == "INCONCLUSIVE"


def test_one_rank_refutes(validators: Validators) -> None:
    lines = log("Using 'triton' Fp8 MoE backend out of potential backends: []", ranks=("TP3",))
    assert said(verdict(validators, "moe-runner=humming", TP4, log=lines)) == ("REFUTED", "built")
    both = lines + log("Using 'humming' Fp8 MoE backend out of potential backends: []")
    both = tuple(dataclasses.replace(line, number=at) for at, line in enumerate(both, 1))
    assert said(verdict(validators, "moe-runner=humming", TP4, log=both)) == ("REFUTED", "built")


def capture(sizes: str, rank: str) -> tuple[str, str]:
    begin = f"[{STAMP} {rank}] Capture target decode CUDA graph begin. bs=[{sizes}]"
    return begin, f"[{STAMP} {rank}] Capture target decode CUDA graph end."


def test_sizes_are_those_that_every_rank_captured(validators: Validators) -> None:
    texts = (*capture("1, 2, 4, 8", "TP0"), *capture("1, 2", "TP1"))
    lines = tuple(LogLine(number, line) for number, line in enumerate(texts, 1))
    one = verdict(validators, "decode-cuda-graphs=8", TP2, log=lines)
    assert said(one) == ("REFUTED", "captured")
    assert "no graph was captured for batch size 8; captured: 1, 2" in one.summary
    assert said(verdict(validators, "decode-cuda-graphs=2", TP2, log=lines))[0] == "PROVEN"
    # The second rank began and never ended.
    found = verdict(validators, "decode-cuda-graphs=2", TP2, log=lines[:3])
    assert (said(found)[0], text(found)) == (
        "INCONCLUSIVE",
        "nothing was seen of tensor parallel rank 1",
    )


def trace(name: str, *kernels: str, last: str = "") -> Trace:
    steps = (
        (TraceStep("DECODE", 3, 1, 1, 1, (Ran(last, 0.0, 1.0, 7, by_graph=True),)),) if last else ()
    )
    return Trace(name, tuple(Kernel(kernel, 3, 1.0) for kernel in kernels), steps)


TRACED = [
    ("moe-runner=humming", {"kernels": ("humming moe_kernel",)}),
    ("fp8-weights", {"kernels": ("nvjet_qqtst_128x64",)}),
    ("fp8-lm-head", {"kernels": ("nvjet_qqtst_1",), "last": "nvjet_qqtst_1"}),
]


def traces(*names: str, kernels: tuple[str, ...], last: str = "") -> tuple[Trace, ...]:
    return tuple(trace(name, *kernels, last=last) for name in names)


@pytest.mark.parametrize(("asked", "seen"), TRACED)
def test_a_trace_speaks_of_the_rank_in_its_name(
    validators: Validators, asked: str, seen: dict[str, Any]
) -> None:
    one = verdict(validators, asked, TP2, traces=traces("1796-TP-0.trace.json.gz", **seen))
    assert said(one) == ("INCONCLUSIVE", "executed")
    assert text(one) == "nothing was seen of tensor parallel rank 1"
    names = ("1796-TP-0.trace.json.gz", "1796-TP-1.trace.json.gz")
    both = verdict(validators, asked, TP2, traces=traces(*names, **seen))
    assert said(both) == ("PROVEN", "executed")
    merged = verdict(validators, asked, TP2, traces=traces("merged-1796.trace.json.gz", **seen))
    assert said(merged)[0] == "INCONCLUSIVE"
    alone = verdict(validators, asked, {"tp_size": 1}, traces=traces("a.trace.json", **seen))
    assert said(alone) == ("PROVEN", "executed")
    stage = traces("1796-TP-0-PP-1-EP-0.trace.json.gz", **seen)
    assert text(verdict(validators, asked, PP2, traces=stage)).endswith("pipeline rank 0")


def test_a_trace_that_shows_another_kernel_is_no_evidence(validators: Validators) -> None:
    ran = (
        trace("1-TP-0.trace.json", "humming moe_kernel"),
        trace("1-TP-1.trace.json", "fused_moe_kernel"),
    )
    one = verdict(validators, "moe-runner=humming", TP2, traces=ran)
    assert said(one) == ("INCONCLUSIVE", "executed")
    unknown = (
        trace("1-TP-0.trace.json", last="nvjet_qqtst"), trace("1-TP-1.trace.json", last="my_gemm"),
    )  # fmt: skip
    assert said(verdict(validators, "fp8-lm-head", TP2, traces=unknown))[0] == "INCONCLUSIVE"


def passes(*ranks: str, count: int = 100, mode: str = "decode_cuda_graph") -> Any:
    lines = [f'sglang:cuda_graph_passes_total{{mode="{mode}",{r}}} {count}' for r in ranks]
    return parse_metrics("\n".join(lines))


def label(tp: int = 0, pp: int = 0, dp: int | None = None) -> str:
    shown = f'tp_rank="{tp}",pp_rank="{pp}"'
    return shown if dp is None else f'{shown},dp_rank="{dp}"'


def sized(tp: int = 0, pp: int = 0, dp: int = 0, sizes: tuple[int, ...] | None = (1, 2)) -> Report:
    """The report of a rank that shows what it captured."""
    model = ModelReport("A", False, graphs={"decode": Graphs("G", (1, 2), sizes)})
    ranks = {"tp_rank": tp, "pp_rank": pp, "dp_rank": dp}
    return Report(f"reports/{tp}-{pp}-{dp}.json", tp, "ready", model, ranks=ranks)


DECODE = "Decode batch, #running-req: 1, #token: 5, cuda graph: True, gen throughput"


@pytest.mark.parametrize(
    ("info", "more", "missing"),
    [
        (TP4, {"metrics": passes(label())}, "no captured size is known of tensor parallel ranks"),
        (TP4, {"log": log(DECODE)}, "no captured size is known of tensor parallel ranks 1, 2, 3"),
        (TP4, {"metrics": passes(label()), "reports": (sized(),)}, "ranks 1, 2, 3"),
        (TP2, {"metrics": passes(label()), "reports": (sized(), sized(1, sizes=None))}, "rank 1"),
        (DP2, {"metrics": passes(label(dp=0))}, "no decode pass was counted of data parallel rank"),
        (DP2, {"metrics": passes(label(dp=0)), "reports": (sized(), sized(dp=1))},
         "no decode pass was counted of data parallel rank 1"),
        (DP2, {"log": log(DECODE, ranks=("DP0",))}, "data parallel rank 1"),
        (DP2, {"metrics": passes(label(), label())}, "no decode pass was counted of data parallel"),
        (PP2, {"metrics": passes(label()), "reports": (sized(), sized(pp=1))}, "pipeline rank 1"),
        (TP2 | DP2, {"metrics": passes(label(dp=0))}, "tp1-pp0-dp0, tp1-pp0-dp1, or no pass"),
    ],
)  # fmt: skip
def test_passes_of_one_rank_do_not_speak_of_others(
    validators: Validators, info: dict[str, Any], more: dict[str, Any], missing: str
) -> None:
    one = verdict(validators, "decode-cuda-graphs", info, **more)
    assert said(one) == ("INCONCLUSIVE", "executed")
    assert missing in text(one)


EVERY = {
    "metrics": passes(*(label(tp) for tp in range(4))),
    "log": log(DECODE, ranks=TP),
}


@pytest.mark.parametrize(
    ("info", "more", "note"),
    [
        (TP4, {"metrics": EVERY["metrics"]}, ""),
        (TP4, {"log": EVERY["log"]}, ""),
        (TP2, {"metrics": passes(label()), "reports": (sized(), sized(1))},
         "passes are counted on tensor parallel rank 0 alone, and the captured sizes of tensor "
         "parallel rank 1 are known"),
        (TP2, {"log": log(DECODE), "reports": (sized(), sized(1))}, "on tensor parallel rank 0"),
        (DP2, {"metrics": passes(label(dp=0), label(dp=1))}, ""),
        (DP2, {"log": log(DECODE, ranks=("DP0", "DP1"))}, ""),
        (PP2, {"metrics": passes(label(), label(pp=1))}, ""),
        ({"tp_size": 1}, {"metrics": passes('engine_type="unified"')}, ""),
        (TP4 | DP2 | {"enable_dp_attention": True},
         {"metrics": passes(label(dp=0), label(2, dp=1)), "reports": tuple(map(sized, range(4)))},
         "the captured sizes of tensor parallel ranks 1, 3 are known"),
    ],
)  # fmt: skip
def test_one_rank_stands_for_its_group_where_sizes_are_known(
    validators: Validators, info: dict[str, Any], more: dict[str, Any], note: str
) -> None:
    one = verdict(validators, "decode-cuda-graphs", info, **more)
    assert said(one) == ("PROVEN", "executed")
    assert note in one.summary
    assert bool(note) == ("alone" in one.summary)


def test_a_rank_that_replayed_nothing_refutes(validators: Validators) -> None:
    counted = passes(*(label(tp) for tp in range(31))) + passes(label(31), mode="decode_none")
    one = verdict(validators, "decode-cuda-graphs", {"tp_size": 32}, metrics=counted)
    assert said(one) == ("REFUTED", "executed")
    assert "all decode passes of tp_rank 31 pp_rank 0 ran eager" in one.summary


def test_an_internal_state_speaks_of_its_own_rank(validators: Validators) -> None:
    state = {"decode_cuda_graph_bs": [1, 2, 4]}
    asked = "decode-cuda-graphs=4"
    one = verdict(validators, asked, DP2 | {"internal_states": [state, {}]})
    assert (said(one), text(one)) == (
        ("INCONCLUSIVE", "captured"),
        "nothing was seen of data parallel rank 1",
    )
    both = verdict(validators, asked, DP2 | {"internal_states": [state, state]})
    assert said(both) == ("PROVEN", "captured")
    ranks = verdict(validators, asked, TP2 | {"internal_states": [state]})
    assert text(ranks) == "nothing was seen of tensor parallel rank 1"


def test_an_environment_is_that_of_the_ranks_of_its_host(validators: Validators) -> None:
    asked, env = "no-simulated-acceptance", {"SGLANG_X": "1"}
    report = Report(
        "reports/0.json", 0, "ready", ModelReport("A", False), knows_simulation=True,
        knows_undeclared=True,
    )  # fmt: skip
    two = TP2 | {"nnodes": 2}
    one = verdict(validators, asked, two, environment=env, reports=(report,))
    assert said(one)[0] == "INCONCLUSIVE"
    assert "tensor parallel rank 1 left no in-engine report" in one.summary
    other = dataclasses.replace(report, file="reports/1.json", rank=1)
    every = verdict(validators, asked, two, environment=env, reports=(report, other))
    assert said(every)[0] == "PROVEN"
    assert said(verdict(validators, asked, TP2, environment=env))[0] == "PROVEN"
    silent = dataclasses.replace(other, knows_simulation=False)
    part = verdict(validators, asked, two, environment=env, reports=(report, silent))
    assert said(part)[0] == "INCONCLUSIVE"
    undeclared = "no-undeclared-environment"
    known = two | {"version": "0.5.23"}
    alone = verdict(validators, undeclared, known, environment={}, reports=(report,))
    assert said(alone)[0] == "INCONCLUSIVE"
    assert "tensor parallel rank 1" in alone.summary


def answer(name: str, **meta: Any) -> Exchange:
    counted = {
        "completion_tokens": 100, "spec_verify_ct": 25, "spec_num_correct_drafts": 75,
        "spec_num_proposed_drafts": 75, **meta,
    }  # fmt: skip
    body = {"text": "hello world", "output_ids": list(range(100)), "meta_info": counted}
    return Exchange(name, "/generate", 200, None, body, "profile", 1)


@pytest.mark.parametrize(
    "asked",
    ["speculative-acceptance=2", "draft-used", "draft-tokens=4", "output-not-corrupted",
     "arithmetic-consistent"],
)  # fmt: skip
def test_an_answer_speaks_of_the_ranks_that_computed_it(validators: Validators, asked: str) -> None:
    info = {"speculative_algorithm": "EAGLE", "tp_size": 2, "pp_size": 2}
    alone = (answer("1.json"),)
    assert said(verdict(validators, asked, info, exchanges=alone))[0] == "PROVEN"
    first = (answer("1.json", dp_rank=0),)
    one = verdict(validators, asked, info | DP2, exchanges=first)
    assert said(one)[0] == "INCONCLUSIVE"
    assert "no answer of ranks tp0-pp0-dp1, tp0-pp1-dp1, tp1-pp0-dp1" in text(one)
    both = (*first, answer("2.json", dp_rank=1))
    assert said(verdict(validators, asked, info | DP2, exchanges=both))[0] == "PROVEN"


def decoded(*ranks: int, count: int = 9) -> Any:
    name = "sglang:realtime_tokens_total"
    return parse_metrics("\n".join(f'{name}{{mode="decode",dp_rank="{r}"}} {count}' for r in ranks))


def test_where_answers_tell_no_rank_counters_may(validators: Validators) -> None:
    asked, info = "draft-used", {"speculative_algorithm": "EAGLE", "dp_size": 2}
    told = {"exchanges": (answer("1.json"),)}
    one = verdict(validators, asked, info, **told)
    assert text(one) == (
        "no answer of data parallel ranks 0, 1 is known: the answers do not tell which one gave "
        "them"
    )
    assert said(verdict(validators, asked, info, metrics=decoded(0, 1), **told))[0] == "PROVEN"
    part = verdict(validators, asked, info, metrics=decoded(0), **told)
    assert said(part)[0] == "INCONCLUSIVE"
    idle = verdict(
        validators, asked, info, metrics=decoded(0, 1), metrics_startup=decoded(0, 1), **told
    )
    assert said(idle)[0] == "INCONCLUSIVE"
    states = [{"last_gen_throughput": 3.0}, {"last_gen_throughput": 4.0}]
    worked = info | {"internal_states": states}
    assert said(verdict(validators, asked, worked, **told))[0] == "PROVEN"
    assert said(verdict(validators, asked, worked, server_info_startup=worked, **told)) == (
        "INCONCLUSIVE", "executed",
    )  # fmt: skip


def layered(pp: int, *layers: MoeLayer, drafts: tuple[ModelReport, ...] = ()) -> Report:
    model = ModelReport("A", False, moe_layers=layers, linear_methods={"QKV:Unquantized": 2})
    ranks = {"pp_rank": pp, "pp_size": 2}
    return Report(f"reports/{pp}.json", 0, "ready", model, drafts, ranks=ranks)


@pytest.mark.parametrize("asked", ["moe-runner=humming", "lm-head-shared"])
def test_what_one_stage_lacks_another_may_have(validators: Validators, asked: str) -> None:
    one = verdict(validators, asked, PP2, reports=(layered(0),))
    assert said(one) == ("INCONCLUSIVE", "None")
    assert "pipeline rank 1 left no in-engine report" in text(one)
    both = verdict(validators, asked, PP2, reports=(layered(0), layered(1)))
    assert str(both.answer) == "NOT_APPLICABLE"
    alone = verdict(validators, asked, {}, reports=(layered(0),))
    assert str(alone.answer) == "INCONCLUSIVE"  # Its own pp_size is 2.


def test_no_draft_by_resolution_needs_no_report_of_every_rank(validators: Validators) -> None:
    info = PP2 | {"speculative_algorithm": None}
    one = verdict(validators, "lm-head-shared", info, reports=(layered(0),))
    assert str(one.answer) == "NOT_APPLICABLE"


def test_a_stage_of_dense_layers_alone_is_no_gap(validators: Validators) -> None:
    layer = MoeLayer("l", "M", "humming", "HummingRunnerCore", has_runner=True)
    found = verdict(validators, "moe-runner=humming", PP2, reports=(layered(0), layered(1, layer)))
    assert said(found) == ("PROVEN", "built")


def test_the_kv_pool_is_that_of_a_group(validators: Validators) -> None:
    asked, info = "context-fits-kv-pool=1000", {"max_total_num_tokens": 5000}
    assert said(verdict(validators, asked, info | TP4))[0] == "PROVEN"
    assert text(verdict(validators, asked, info | DP2)).endswith("data parallel rank 1")
    states = [{"memory_usage": {"token_capacity": size}} for size in (5000, 4000)]
    known = info | DP2 | {"internal_states": states}
    assert said(verdict(validators, asked, known))[0] == "PROVEN"
    states[1]["memory_usage"]["token_capacity"] = 500
    assert said(verdict(validators, asked, known))[0] == "REFUTED"


SEEN = Observation("log", "it", 1, Rung.BUILT, "server.log:1")


def test_only_a_proof_needs_every_rank() -> None:
    told = Replica(0, ServerState("ready"), server_info=TP4)
    for outcome in (
        refuted(Rung.BUILT, "no", SEEN, remedy="mend it"),
        inconclusive(Rung.BUILT, "open", SEEN),
        proven(Rung.RESOLVED, "resolved", SEEN),
        proven(Rung.BUILT, "of all at once", dataclasses.replace(SEEN, scope="all")),
        proven(Rung.BUILT, "aside", dataclasses.replace(SEEN, aside=True)),
    ):
        assert coverage_of(outcome, told, None, Rung.BUILT).missing == ""
    assert coverage_of(proven(Rung.BUILT, "built", SEEN), told, None, Rung.BUILT).missing
