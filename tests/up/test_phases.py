"""Phases from lines of real logs."""

from __future__ import annotations

import pytest

from configurator.content import ROOT
from configurator.up.phases import STARTING, Step, step_of, why_slow

RECORDINGS = ROOT / "configurator" / "demo" / "recordings"


def after(*lines: str) -> Step:
    step = Step(STARTING)
    for line in lines:
        step = step_of(line, step)
    return step


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("[2026-11-30 05:23:21] Init torch distributed begin.", "initializing distributed"),
        ("[2026-11-30 05:23:23] Load weight begin. avail mem=21.94 GB", "loading weights"),
        (
            "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01, 1.2s/it]",
            "loading weights 50%",
        ),
        ("Multi-thread loading shards: 100% Completed | 1/1 [00:00<00:00]", "loading weights 100%"),
        ("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 4096", "allocating the KV cache"),
        (
            "Capture target verify CUDA graph begin. backend=full, bs=[1, 2]",
            "capturing graphs target verify",
        ),
        (
            "Capturing batches (bs=1 avail_mem=1.00 GB):  75%|███████▌  | 3/4 [00:01<00:00]",
            "capturing graphs 3/4",
        ),
        ("Running FlashInfer autotune with cache: x", "FlashInfer autotune"),
        ("Entering DeepGEMM JIT Pre-Compile session. It may take", "DeepGEMM pre-compile"),
        ("INFO:     Uvicorn running on http://127.0.0.1:30000", "warming up"),
        ("The server is fired up and ready to roll!", "ready by its log"),
        ("server_args=ServerArgs(x='Load weight begin')", STARTING),
        ("something else", STARTING),
    ],
)
def test_a_line_gives_its_phase(line: str, step: str) -> None:
    assert str(after(line)) == step


def test_which_graphs_are_captured_stays_while_they_are_counted() -> None:
    begun = "Capture draft decode CUDA graph begin. backend=full"
    bar = "Capturing batches (bs=1 avail_mem=1 GB):  25%|██▌       | 1/4 [00:00<00:00]"
    more = "Capturing batches (bs=2 avail_mem=1 GB):  50%|█████     | 2/4 [00:00<00:00]"
    assert after(begun, bar, more) == Step("capturing graphs", "draft decode 2/4")
    again = "Capture target verify CUDA graph begin. backend=full"
    assert after(begun, bar, again) == Step("capturing graphs", "target verify")


def test_a_recorded_start_goes_through_its_phases_in_order() -> None:
    phases: list[str] = []
    step = Step(STARTING)
    for line in (RECORDINGS / "healthy/replica-0/server.log").read_text().splitlines():
        step = step_of(line, step)
        if not phases or phases[-1] != step.phase:
            phases.append(step.phase)
    assert phases == [
        STARTING, "initializing distributed", "loading weights", "allocating the KV cache",
        "warming up", "ready by its log",
    ]  # fmt: skip


def test_what_is_slow_on_a_first_start_is_said() -> None:
    assert "10 to 20 minutes" in why_slow("DeepGEMM pre-compile")
    assert why_slow("warming up") == ""
