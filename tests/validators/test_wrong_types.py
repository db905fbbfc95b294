"""Values of a foreign type, wherever a probe reads: never a crash, whatever the engine answers."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from replicas import judged, log, spoken

from configurator.content import Library
from configurator.engine.catalogue import load_catalogue
from configurator.evidence.model import Evidence, Exchange, Replica, Report, Sample, ServerState
from configurator.evidence.reports import parse_report
from configurator.judge import expectation_from, judge
from configurator.loader import Validators
from configurator.report.json_report import judgement as as_json
from configurator.resolve import resolve

REPORTS = Path(__file__).parents[1] / "fixtures" / "inengine"
WRONG: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**70, 10**400, 1.5, 1e308, float("nan"), float("inf"),
    "", "x", "NaN", "3", "-3", "0x10", "1_0", "\u0661", "a" * 300,
    [], [[]], [[1], 2], ["x", None, {}], [None], [True], [float("inf")], [10**400], ["3"],
    {}, {"error": "x"}, {"a": {"b": [1]}}, {"decode": 3}, {"decode": {"backend": ["disabled"]}},
)  # fmt: skip
VALUES = {"N": "4", "NAME": "triton", "BS,...": "1,4", "FLOOR": "2", "FAMILY": "moe-triton"}


class Spy(dict[str, Any]):
    """A mapping that notes which of its keys are asked for."""

    def __init__(self, data: dict[str, Any], seen: set[str]) -> None:
        super().__init__(data)
        self.seen = seen

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.seen.add(str(key))
        return super().__contains__(key)


INFO: dict[str, Any] = {
    "version": "0.5.23", "model_path": "/m/x", "attention_backend": "triton",
    "kv_cache_dtype": "fp8_e4m3", "speculative_algorithm": "EAGLE", "tp_size": 1, "dp_size": 1,
    "speculative_num_draft_tokens": 4, "moe_runner_backend": "humming", "context_length": 4096,
    "max_total_num_tokens": 8192, "speculative_draft_model_path": "/m/y", "quantization": "fp8",
    "launch_command": "--tp 1", "max_running_requests": 8,
}  # fmt: skip
STATE = {
    "decode_cuda_graph_bs": [1, 2, 4], "env_vars": {"SGLANG_X": "1"}, "avg_spec_accept_length": 2.0,
}  # fmt: skip
PASSES = tuple(
    Sample("sglang:cuda_graph_passes_total", {"mode": mode}, 9.0)
    for mode in ("decode_cuda_graph", "decode_none")
)
LINES = log(
    "[2026-11-30 09:00:00 TP0] Decode batch, #running-req: 4, accept len: 3.00, accept rate: 0.60, "
    "cuda graph: True",
)  # fmt: skip


def asks(validators: Validators) -> list[str]:
    """Every probe, with a value where it takes one."""
    return [
        f"{name}={VALUES[probe.takes]}" if probe.takes in VALUES else name
        for name, probe in validators.probes.items()
    ]


def parts(name: str) -> dict[str, Any]:
    """Evidence beside /server_info that leads probes down different ways."""
    every: dict[str, dict[str, Any]] = {
        "alone": {},
        "counted": {"metrics": PASSES, "exchanges": (spoken([0, 0, 0, 100]),)},
        "logged": {"log": LINES, "environment": {"PATH": "x"}},
        "asked": {"requested": {"tp": "1", "max_running_requests": ["8"], "model_path": "/m/x"}},
    }
    return every[name]


def read_keys(
    judge_one: Callable[..., Any], what: list[str], more: dict[str, Any]
) -> Iterator[tuple[str, bool, str]]:
    """Which keys of /server_info and of a state each probe asks for."""
    for ask in what:
        seen: set[str] = set()
        inside: set[str] = set()
        info = Spy({**INFO, "internal_states": [Spy(STATE, inside)]}, seen)
        judge_one(ask, server_info=info, **more)
        yield from ((ask, False, key) for key in seen)
        yield from ((ask, True, key) for key in inside)


@pytest.mark.parametrize("name", ["alone", "counted", "logged", "asked"])
@pytest.mark.parametrize("by_profile", [False, True])
def test_no_value_of_server_info_crashes_a_probe(
    validators: Validators, library: Library, name: str, by_profile: bool
) -> None:
    more = {**parts(name), "catalogue": load_catalogue("0.5.23")}
    if by_profile:
        more["deployment"] = resolve(*library.profile("ling-3.0-flash-spark"), library)
    keys = set(
        read_keys(lambda ask, **held: judged(validators, ask, **held), asks(validators), more)
    )
    assert len({key for _, _, key in keys}) > 15
    crashes: dict[tuple[str, str, str], str] = {}
    for ask, is_inside, key in keys:
        for value in WRONG:
            state = {**STATE, key: value} if is_inside else STATE
            info = {**INFO, "internal_states": [state]}
            info = info if is_inside else {**info, key: value}
            try:
                judged(validators, ask, server_info=info, **more)
                judged(validators, ask, server_info_startup=info, **more)
            except Exception as error:
                crashes.setdefault((ask, key, type(error).__name__), f"{value!r:.60}: {error}")
    assert crashes == {}


FOREIGN: tuple[Any, ...] = (
    True,
    1.5,
    float("nan"),
    2**70,
    [],
    [[1], 2],
    ["x", None, {}],
    {},
    {"a": {"b": [1]}},
)


@pytest.mark.parametrize(
    ("ask", "key"),
    [
        ("attention-backend=triton", "attention_backend"),
        ("kv-cache-dtype=fp8_e4m3", "kv_cache_dtype"),
        ("moe-runner=humming", "moe_runner_backend"),
        ("draft-tokens=4", "speculative_num_draft_tokens"),
        ("context-fits-kv-pool=4096", "max_total_num_tokens"),
        ("decode-cuda-graphs=1,4", "decode_cuda_graph_bs"),
        ("no-simulated-acceptance", "env_vars"),
    ],
)
def test_a_value_of_a_foreign_type_says_nothing(validators: Validators, ask: str, key: str) -> None:
    for value in FOREIGN:
        info = {"version": "0.5.23", key: value, "internal_states": [{key: value}]}
        outcome = judged(validators, ask, server_info=info)
        assert str(outcome.answer) == "INCONCLUSIVE", value


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in nested data."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data[:3])
    for key, value in pairs:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at the path."""
    data = copy.deepcopy(data)
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return data


def crashes_of(validators: Validators, replica: Replica, what: str) -> dict[str, str]:
    """What crashes when every probe judges the replica and the verdicts are written as JSON."""
    wanted = [expectation_from(ask, validators.probes) for ask in asks(validators)]
    result = judge(wanted, Evidence("d", (replica,)), validators)
    as_json(result, "d", None)
    return {
        verdict.summary[:120]: what for verdict in result.verdicts if "crashed" in verdict.summary
    }


@pytest.mark.parametrize("name", ["nextn_good", "moe_humming", "engine_0517_nextn"])
def test_no_value_of_a_report_crashes_a_probe(validators: Validators, name: str) -> None:
    (file,) = (REPORTS / name).glob("report-tp0-*.json")
    data = json.loads(file.read_text())
    random.seed(name)
    crashes: dict[str, str] = {}
    for path in places(data):
        for value in random.sample(WRONG, 3):
            report = parse_report("r.json", replaced(data, path, value))
            reports: tuple[Report, ...] = () if report is None else (report,)
            replica = Replica(0, ServerState("ready"), server_info=INFO, reports=reports)
            crashes |= crashes_of(validators, replica, f"{path} = {value!r:.60}")
    assert crashes == {}


def test_no_value_of_an_answer_crashes_a_probe(validators: Validators) -> None:
    answer = spoken([0, 0, 0, 100]).response
    meta = {"prompt_tokens": 4, "spec_accept_rate": 1.0, "id": "x"}
    answer["meta_info"].update(meta)
    request = {"text": "1, 2, 3,", "sampling_params": {"temperature": 0, "max_new_tokens": 64}}
    whole = {"request": request, "response": answer}
    crashes: dict[str, str] = {}
    random.seed(1)
    for path in places(whole):
        for value in random.sample(WRONG, 9):
            held = replaced(whole, path, value)
            exchanges = tuple(
                Exchange(f"{kind}.json", "/generate", 200, **held, kind=kind)
                for kind in ("profile", "known-answer")
            )
            replica = Replica(0, ServerState("ready"), server_info=INFO, exchanges=exchanges)
            crashes |= crashes_of(validators, replica, f"{path} = {value!r:.60}")
    assert crashes == {}


@pytest.mark.parametrize(
    "line",
    [
        "Decode batch, #running-req: 4, accept len: 3.0.0, accept rate: 0.6, cuda graph: True",
        "Decode batch, #running-req: 4, accept len: ..., accept rate: ., cuda graph: True",
        "Decode batch, #running-req: 99999999999999999999, cuda graph: True",
        "Capture target decode CUDA graph begin. bs=[1 2]",
        "Capture target decode CUDA graph begin. bs=[ , ,]",
        f"Capture target decode CUDA graph begin. bs=[{'9' * 5000}]",
        "NVIDIA megakernel: x runs the decode graphs of batch sizes [1 2, ] (9 of 1); every other",
        f"NVIDIA megakernel: x runs the decode graphs of batch sizes [{'9' * 5000}] (1 of 1)",
        "Load weight begin. avail mem=1.2.3 GB",
        "KV Cache is allocated. dtype: torch., #tokens: x",
    ],
)
def test_no_line_of_the_log_crashes_a_probe(validators: Validators, line: str) -> None:
    lines = log(*[line] * 3, "Capture target decode CUDA graph end. elapsed=1 s")
    replica = Replica(0, ServerState("ready"), server_info=INFO, log=lines)
    assert crashes_of(validators, replica, line) == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -1.0, 1e308])
def test_no_metric_crashes_a_probe(validators: Validators, value: float) -> None:
    wrong = tuple(Sample(one.name, one.labels, value) for one in PASSES)
    for now, before in ((wrong, PASSES), (PASSES, wrong), (wrong, wrong)):
        replica = Replica(0, ServerState("ready"), metrics=now, metrics_startup=before)
        assert crashes_of(validators, replica, "metrics") == {}
