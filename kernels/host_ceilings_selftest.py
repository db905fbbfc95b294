"""Ceilings of this host: memory bandwidth beyond the L2 cache, and what a launch costs."""

from __future__ import annotations

from typing import Any

from selftest_kit import (
    Clock,
    Report,
    Timing,
    captured,
    main,
    need_gpu,
    poisoned,
    rate,
    torch,
    wall,
)

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

SIZES = (256 << 20, 1 << 30, 4 << 30)
"""Bytes of a buffer; those below four times the L2 cache are left out."""
BLOCK = 4096
CHAIN = 1000
"""Kernels in one graph, and launches in one sample."""

if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _read(source, out, steps, block: tl.constexpr):  # type: ignore[no-untyped-def]
        """Sum of `steps` blocks of float32 to one value for each program."""
        first = tl.program_id(0).to(tl.int64) * steps * block
        places = first + tl.arange(0, block)
        total = tl.zeros((block,), dtype=tl.float32)
        for step in range(steps):
            total += tl.load(source + places + step * block)
        tl.store(out + tl.program_id(0), tl.sum(total, 0))


def run(report: Report) -> None:
    """Bandwidth by size, then launches."""
    properties = need_gpu()
    clock = Clock()
    free, _ = torch.cuda.mem_get_info()
    sizes = [s for s in SIZES if 4 * properties.L2_cache_size <= s <= free / 3]
    for name, measure in (("copy", _copy), ("read", _reading)):
        found: dict[int, Timing] = {}
        for size in sizes:
            why, found[size] = measure(clock, size)
            shown = {"gb_s": round(found[size].median), "bytes": size}
            report.check(f"{name} {size >> 20} MiB", "wrong" if why else "ok", why, **shown)
        if found:
            report.figure(f"{name}_gb_s", "GB/s", max(found.values(), key=lambda t: t.median))
    _launches(report)


def _copy(clock: Clock, size: int) -> tuple[str, Timing]:
    """Why the copy is wrong, and GB/s of bytes read and written together."""
    source = torch.randint(-(1 << 30), 1 << 30, (size // 4,), dtype=torch.int32, device="cuda")
    target = torch.full_like(source, (1 << 31) - 1)
    # Not from a graph: there a large copy can be the work of a slower engine of the GPU.
    took = clock.queued(lambda: target.copy_(source), runs=20)
    target.fill_((1 << 31) - 1)
    target.copy_(source)
    why = "" if torch.equal(source, target) else "the copy differs from its source"
    return why, rate(2 * size, took)


def _reading(clock: Clock, size: int) -> tuple[str, Timing]:
    """Why the sum is wrong, and GB/s read; the faster of torch's own sum and a Triton kernel."""
    source = torch.rand(size // 4, dtype=torch.float32, device="cuda")
    wanted = float(source.sum(dtype=torch.float64))
    calls: list[tuple[Any, Any]] = []
    whole = poisoned(dtype=torch.float32, device="cuda")
    calls.append((whole, lambda: torch.sum(source, dim=0, out=whole)))
    if triton is not None:
        steps = 16
        programs = size // 4 // BLOCK // steps
        parts = poisoned(programs, dtype=torch.float32, device="cuda")
        calls.append((parts, lambda: _read[(programs,)](source, parts, steps, BLOCK)))
    why, best = "", None
    for out, call in calls:
        took = clock.replayed(call, runs=20)
        out.fill_(float("nan"))
        call()
        got = float(out.sum(dtype=torch.float64))
        if not abs(got - wanted) <= 1e-4 * wanted:
            why = f"a sum of {wanted:.6g} came out as {got:.6g}"
        best = took if best is None or took.median < best.median else best
    assert best is not None
    return why, rate(size, best)


def _launches(report: Report) -> None:
    """Host time of a launch, time of a kernel inside a graph, and host time of a graph."""
    counter = torch.zeros(1024, dtype=torch.float32, device="cuda")

    def chain() -> None:
        for _ in range(CHAIN):
            counter.add_(1)

    eager = wall(chain).per(CHAIN)
    graph = captured(chain)
    inside = wall(graph.replay).per(CHAIN)
    counter.zero_()
    chain()
    graph.replay()
    right = bool((counter == 2 * CHAIN).all())
    why = "" if right else f"a chain that adds to {2 * CHAIN} ended at {float(counter[0]):g}"
    single = captured(lambda: counter.add_(1))

    def graphs() -> None:
        for _ in range(CHAIN):
            single.replay()

    report.check("launches", "ok" if right else "wrong", why)
    report.figure("eager_launch_us", "us", eager)
    report.figure("graph_kernel_us", "us", inside)
    report.figure("graph_launch_us", "us", wall(graphs).per(CHAIN))


if __name__ == "__main__":
    main(run)
