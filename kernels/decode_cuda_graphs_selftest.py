"""Graph against eager: a chain of small dependent kernels, as a decode step has them."""

from __future__ import annotations

from typing import Any

from selftest_kit import (
    Report,
    captured,
    error_of,
    main,
    need_gpu,
    poisoned,
    ratio,
    torch,
    wall,
    why_wrong,
)

LAYERS, WIDTH = 48, 2560
KERNELS = 5
"""Kernels of a layer below."""


def run(report: Report) -> None:
    """Both ways of one chain: the same numbers, and microseconds a kernel."""
    need_gpu()
    torch.manual_seed(1)
    start = torch.randn(1, WIDTH, device="cuda")
    gains = torch.rand(LAYERS, WIDTH, device="cuda") + 0.5
    out = poisoned(1, WIDTH, dtype=torch.float32, device="cuda")
    wanted = _chain(start.double(), gains.double())

    def step() -> None:
        out.copy_(_chain(start, gains))

    eager = wall(step, runs=51)
    why = _judged(out, wanted)
    report.check("eager", "wrong" if why else "ok", why)
    graph = captured(step)
    out.fill_(float("nan"))
    graph.replay()
    why = _judged(out, wanted)
    report.check("graph", "wrong" if why else "ok", why)
    replay = wall(graph.replay, runs=51)
    count = LAYERS * KERNELS + 1
    report.figure("eager_us", "us", eager.per(count))
    report.figure("graph_us", "us", replay.per(count))
    report.figure("speedup", "", ratio(eager, replay))


def _chain(x: Any, gains: Any) -> Any:
    """Layers of five element-wise kernels, each of which needs the one before."""
    for gain in gains:
        x = torch.tanh(x * gain + 0.1) + x * 0.5
    return x


def _judged(out: Any, wanted: Any) -> str:
    torch.cuda.synchronize()
    return why_wrong(out, error_of(out, wanted), 1e-4)


if __name__ == "__main__":
    main(run)
