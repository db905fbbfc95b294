"""How far a start has come, from the lines of the engine's log."""

from __future__ import annotations

import re
from dataclasses import dataclass

STARTING = "importing"
READY = "ready"

_MARKS = (
    (re.compile(r"Init (?:torch distributed|parallel) begin"), "initializing distributed"),
    (re.compile(r"Load weight begin|(?:Loading|loading) [\w ]*shards:"), "loading weights"),
    (re.compile(r"KV Cache is allocated|Memory pool end"), "allocating the KV cache"),
    (re.compile(r"Capture [\w ]*graph (?:begin|bs)|Capturing batches"), "capturing graphs"),
    (re.compile(r"Running FlashInfer autotune|\[Autotuner\]"), "FlashInfer autotune"),
    (re.compile(r"DeepGEMM (?:JIT Pre-Compile|warmup)"), "DeepGEMM pre-compile"),
    (re.compile(r"Uvicorn running|Application startup complete"), "warming up"),
    (re.compile(r"fired up and ready to roll"), "ready by its log"),
)
_BAR = re.compile(r"(\d{1,3})%(?:\|[^|]*\| (\d+)/(\d+))?")
_COUNT = re.compile(r"\| (\d+)/(\d+)")
_CAPTURE = re.compile(r"Capture ((?:target|draft)[\w ]*?) (?:CUDA |CPU |cpu )?graph begin")
_SLOW = {
    "FlashInfer autotune": "a first start tunes for minutes and keeps the result",
    "DeepGEMM pre-compile": "a first start compiles for 10 to 20 minutes and keeps the result",
    "capturing graphs": "a first start compiles kernels here",
    STARTING: "a cold file system makes imports slow",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A phase, and how far it is: `50%`, `3/8`, `target verify 2/4`."""

    phase: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.phase} {self.detail}".rstrip()


def step_of(line: str, before: Step) -> Step:
    """The step after `line` of the log was written in the step `before`.

    Phases may come again: a draft loads its weights after the target has loaded.
    """
    if "server_args=" in line:
        return before
    for pattern, phase in _MARKS:
        if pattern.search(line):
            kept = _graphs(before.detail) if before.phase == phase else ""
            return Step(phase, _detail(phase, line, kept))
    return before


def _detail(phase: str, line: str, which: str) -> str:
    if phase == "capturing graphs":
        if begun := _CAPTURE.search(line):
            return begun[1]
        count = _COUNT.search(line)
        return f"{which} {count[1]}/{count[2]}".strip() if count else which
    bar = _BAR.search(line)
    return f"{bar[1]}%" if bar else ""


def _graphs(detail: str) -> str:
    """Which graphs are captured, without how many."""
    return re.sub(r" ?\d+/\d+\Z", "", detail)


def why_slow(phase: str) -> str:
    """Why a phase may be silent for long on a first start; empty when nothing is known."""
    return _SLOW.get(phase, "")
