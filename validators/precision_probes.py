"""Probes of precision: KV cache, FP8 weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from configurator import (
    Check,
    Families,
    Observation,
    Outcome,
    Replica,
    Report,
    Rung,
    inconclusive,
    on_ranks,
    probe,
    proven,
    refuted,
)

_KV_LINE = re.compile(
    r"(Post-capture KV sizing: |(?:Full|SWA) )?KV [Cc]ache (?:is )?allocated\.? "
    r"dtype: (?:torch\.)?(\w+)"
)
_FP8_GEMM = re.compile(r"qqtst|e4m3|float_e4m3|fp8", re.IGNORECASE)
_GEMM = re.compile(r"gemm|gemv|nvjet|cutlass|scaled_mm|matmul", re.IGNORECASE)
_NOT_LINEAR = re.compile(
    r"quant|moe|expert|grouped|masked|GemmType(?:\)[1-9]|::[MK]_?Group)|attention|flash|fmha|cache"
    r"|reduce",
    re.IGNORECASE,
)
"""Experts, attention, and what prepares or adds up for a GEMM; GemmType 0 of DeepGEMM is a plain
one, and the others are grouped."""
_OTHER = re.compile(r"unquantized|fp4|int[48]|awq|gptq", re.IGNORECASE)
"""Methods that are certainly not FP8."""
_MOST = 0.5
"""FP8 checkpoints leave some linear layers as they are, but not most of them."""
_GIVE_REPORT = "run with the in-engine report (evidence.instrument: standard)"


@probe("kv-cache-dtype", takes="NAME", requires_value=True, proof_rung="built")
def kv_cache_dtype(check: Check) -> Outcome:
    """The KV cache holds numbers of the named type (`fp8_e4m3` and `float8_e4m3fn` are one).

    Proven: the log names the type of the target's cache that was allocated, or the in-engine report
    of every rank that of the pool (built). With `auto` any type will do.

    Refuted: a cache was allocated as a type that cannot hold what is named, or the engine resolved
    another format.

    Open: only the resolved type is known, of /server_info or of a report, which is an echo of the
    flag; the cache is allocated as a type that several formats share (mxfp8 as float8_e4m3fn, nvfp4
    and fp4_mx_block16 as float4_e2m1fn_x2), so the format is not shown; one rank does not show its
    pool; or nothing is known.
    """
    replica = check.replica
    asked = check.expectation.value or ""
    wish = _dtype(asked)
    built, resolved = list(_kv_caches(replica)), list(_resolved_kv(replica))
    contrary = _contrary(wish, built, resolved)
    if contrary is not None:
        fact = "the engine resolved the KV cache to" if contrary in resolved else "the KV cache is"
        text = f"{fact} {contrary.value}, not {asked}"
        remedy = f"set --kv-cache-dtype {asked}"
        return refuted(contrary.rung, text, *built, *resolved, remedy=remedy)
    conflicts = tuple(
        f"{seen.source} says kv_cache_dtype {seen.value}, but {built[0].value} is allocated"
        for seen in resolved
        if built and not _may_hold(_dtype(str(seen.value)), str(built[0].value))
    )
    pools = [r for r in replica.reports if r.target is not None and r.target.kv_pool_dtype]
    lack = [report for report in replica.reports if report not in pools]
    if pools and lack:
        text = f"the KV cache is allocated as {built[0].value}, but the part kv_pool is missing"
        return inconclusive(
            Rung.BUILT, text + on_ranks(lack, replica.reports), *built, remedy=_GIVE_REPORT,
            conflicts=conflicts,
        )  # fmt: skip
    if built:
        return _of_storage(wish, asked, built, conflicts)
    keep = f"keep the server's log from its start, or {_GIVE_REPORT}"
    if not resolved:
        return inconclusive(None, "nothing shows the type of the KV cache", remedy=keep)
    place = "/server_info" if resolved[0].source == "server_info" else "the report"
    text = f"{place} says kv_cache_dtype {resolved[0].value}: an echo of the flag, no proof"
    return inconclusive(Rung.RESOLVED, text, *resolved, remedy=keep)


def _contrary(
    wish: str, built: list[Observation], resolved: list[Observation]
) -> Observation | None:
    """What shows another type than the wish; None: nothing does."""
    if wish == "auto":
        return None
    for seen in built:
        if not _may_hold(wish, str(seen.value)):
            return seen
    for seen in resolved:
        other = _dtype(str(seen.value))
        # Where a cache was seen, an echo that it contradicts is a conflict and no more.
        agrees = not built or (other in _STORED and _may_hold(other, str(built[0].value)))
        if other not in ("auto", wish) and agrees:
            return seen
    return None


def _of_storage(
    wish: str, asked: str, built: list[Observation], conflicts: tuple[str, ...]
) -> Outcome:
    """A cache that may hold the wish: proven where its type shows the format."""
    text = f"the KV cache is allocated as {built[0].value}"
    if wish == "auto" or all(_shows(wish, str(seen.value)) for seen in built):
        return proven(Rung.BUILT, text, *built, conflicts=conflicts)
    return inconclusive(
        Rung.BUILT, f"{text}, as {asked} is; other formats are too, so the format is not shown",
        *built, conflicts=conflicts,
        remedy="no evidence of this engine names the format; compare the memory of the KV cache",
    )  # fmt: skip


def _resolved_kv(replica: Replica) -> Iterator[Observation]:
    """The type that the engine resolved, which says nothing of the pool."""
    info = replica.server_info or replica.server_info_startup or {}
    value, pointer = info.get("kv_cache_dtype"), "server_info.json#/kv_cache_dtype"
    if isinstance(value, str) and value:
        yield Observation("server_info", "kv_cache_dtype", value, Rung.RESOLVED, pointer)
    for report in replica.reports:
        if report.target is not None and report.target.kv_cache_dtype:
            yield Observation(
                "report", "kv_cache_dtype", report.target.kv_cache_dtype, Rung.RESOLVED,
                report.file, rank=report.rank,
            )  # fmt: skip


def _dtype(name: str) -> str:
    """One name for one format."""
    plain = name.lower().removeprefix("torch.")
    return _SAME_DTYPE.get(plain, plain)


_SAME_DTYPE = {
    "bf16": "bfloat16", "fp16": "float16", "half": "float16", "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2", "float8_e4m3": "fp8_e4m3", "fp4_e2m1": "fp4_mx_block16",
}  # fmt: skip
_STORED = {
    "fp8_e4m3": ("float8_e4m3fn", "float8_e4m3fnuz"),
    # AMD GPUs have one FP8 type for both names.
    "fp8_e5m2": ("float8_e5m2", "float8_e4m3fnuz"),
    "mxfp8": ("float8_e4m3fn",),
    "nvfp4": ("float4_e2m1fn_x2",),
    "fp4_mx_block16": ("float4_e2m1fn_x2",),
}
"""Types of torch that a format is allocated as; every other format is a type of its own name."""
_BYTES = ("uint8", "int8")
"""Plain bytes, which quantized formats are kept in."""
_NAMED = {"fp8_e4m3": ("float8_e4m3fn", "float8_e4m3fnuz"), "fp8_e5m2": ("float8_e5m2",)}
"""Types that show the format: no other one is meant by their name."""


def _may_hold(wish: str, stored: str) -> bool:
    """Whether the engine allocates this type for the format."""
    kind = stored.lower().removeprefix("torch.")
    own = _STORED.get(wish)
    return wish == "auto" or (kind == wish if own is None else kind in (*own, *_BYTES))


def _shows(wish: str, stored: str) -> bool:
    """Whether this type says the format as well."""
    kind = stored.lower().removeprefix("torch.")
    return kind in _NAMED.get(wish, () if wish in _STORED else (wish,))


def _kv_caches(replica: Replica) -> Iterator[Observation]:
    for report in replica.reports:
        if report.target is not None and report.target.kv_pool_dtype:
            dtype = report.target.kv_pool_dtype.removeprefix("torch.")
            yield Observation(
                "report", "KV pool dtype", dtype, Rung.BUILT, report.file, rank=report.rank
            )
    told = set()
    for line, found in replica.said(_KV_LINE, while_starting=True):
        # A rank allocates the target's cache first; one more line of the same kind is a draft's.
        place = (found[1], *sorted(line.ranks.items()))
        if place not in told:
            told.add(place)
            locator = f"server.log:{line.number}"
            yield Observation("log", "KV cache dtype", found[2], Rung.BUILT, locator)


@probe("fp8-weights", proof_rung="built")
def fp8_weights(check: Check) -> Outcome:
    """The linear layers hold FP8 weights and run FP8 GEMMs; the LM head is not meant.

    Proven: at least half of the GEMM launches of every trace, without those of the LM head and of
    experts, are FP8 (executed), or the in-engine report shows an FP8 quantization method for at
    least half of the linear layers of every rank (built).

    Refuted: the report shows a rank whose linear layers are all unquantized, or of another type.

    Open: fewer launches or layers are FP8, with the share of them; neither report nor trace.
    `quantization` in /server_info is an echo of the flag, or null when the checkpoint decides.
    """
    traced = _gemms(check.replica, check.families)
    shares = list(_shares(check.replica))
    layers = [seen for share in shares for seen in share.layers]
    if shares:
        return _of_shares(check.replica, shares, traced, layers)
    if traced.fp8:
        if traced.is_most:
            return proven(Rung.EXECUTED, str(traced), *_few(traced.observations))
        text = f"{traced}: fewer than half of them"
        return inconclusive(Rung.EXECUTED, text, *_few(traced.observations), remedy=_GIVE_REPORT)
    info = check.replica.server_info or {}
    value = info.get("quantization")
    if value is None:
        return inconclusive(None, "nothing shows the precision of weights", remedy=_GIVE_REPORT)
    seen = Observation(
        "server_info", "quantization", value, Rung.RESOLVED, "server_info.json#/quantization"
    )
    text = f"/server_info says quantization {value}: an echo of the flag, no proof"
    return inconclusive(Rung.RESOLVED, text, seen, remedy=_GIVE_REPORT)


@dataclass(frozen=True, slots=True)
class _Gemms:
    """GEMM launches of linear layers in the trace that has the smallest share of FP8."""

    fp8: int
    total: int
    observations: list[Observation]
    """The FP8 kernels of every trace."""

    @property
    def is_most(self) -> bool:
        """FP8 is the rule there."""
        return self.fp8 > 0 and self.fp8 >= _MOST * self.total

    def __str__(self) -> str:
        name = str(self.observations[0].value)[:80] if self.observations else "none"
        return f"the trace has FP8 GEMMs, {self.fp8} of {self.total} launches: {name}"


def _gemms(replica: Replica, families: Families) -> _Gemms:
    seen: list[Observation] = []
    counts = []
    for trace in replica.traces:
        fp8 = other = 0
        heads = [(step, families.last_gemm(step)) for step in trace.steps]
        for kernel in trace.kernels:
            if not _is_linear(kernel.name):
                continue
            head = sum(step.steps for step, last in heads if last == kernel.name)
            if not _is_fp8_gemm(kernel.name):
                # Other layers may share the head's kernel: one launch a step is the head's.
                other += max(0, kernel.count - head)
            elif not head:
                fp8 += kernel.count
                excerpt = f"{kernel.count} launches"
                seen.append(
                    Observation(
                        "trace", "GEMM kernel", kernel.name, Rung.EXECUTED, trace.file, excerpt
                    )
                )
        if fp8 or other:
            counts.append((fp8, fp8 + other))
    fp8, total = min(counts, key=lambda pair: pair[0] / pair[1], default=(0, 0))
    return _Gemms(fp8, total, seen)


def _is_linear(name: str) -> bool:
    is_gemm = _GEMM.search(name) or "qqtst" in name
    return bool(is_gemm and not _NOT_LINEAR.search(name))


def _few(traced: list[Observation]) -> list[Observation]:
    """The first three kernels, and the first of every trace."""
    firsts = {seen.locator: seen for seen in reversed(traced)}
    return traced[:3] + [seen for seen in firsts.values() if seen not in traced[:3]]


def _is_fp8_gemm(name: str) -> bool:
    return bool(_FP8_GEMM.search(name)) and _is_linear(name)


@dataclass(frozen=True, slots=True)
class _Share:
    """The linear layers of the target on one rank."""

    report: Report
    layers: list[Observation]
    fp8: int
    plain: int
    """Those without a quantization, or with one that is not FP8."""
    total: int

    def __str__(self) -> str:
        methods = ", ".join(dict.fromkeys(str(seen.value) for seen in self.layers))
        return f"{self.fp8} of {self.total} linear layers are FP8 ({methods})"


def _shares(replica: Replica) -> Iterator[_Share]:
    """The linear layers by rank; a method whose name tells nothing is neither FP8 nor plain."""
    for report in replica.reports:
        methods = report.target.linear_methods if report.target is not None else {}
        linear = [
            (layer, method, count)
            for pair, count in methods.items()
            for layer, _, method in [pair.partition(":")]
            if layer.endswith("Linear")
        ]
        if not linear:
            continue
        seen = [
            Observation(
                "report", f"{count} x {layer}", method, Rung.BUILT, report.file, rank=report.rank
            )
            for layer, method, count in linear
        ]
        fp8 = sum(count for _, method, count in linear if "fp8" in method.lower())
        plain = sum(count for _, method, count in linear if _OTHER.search(method))
        yield _Share(report, seen, fp8, plain, sum(count for _, _, count in linear))


def _of_shares(
    replica: Replica, shares: list[_Share], traced: _Gemms, layers: list[Observation]
) -> Outcome:
    """What the layers of every rank say, and a trace of one of them."""
    reports = [share.report for share in shares]
    none = [share for share in shares if share.plain == share.total]
    few = [share for share in shares if share.fp8 < _MOST * share.total]
    worst = min(shares, key=lambda share: share.fp8 / max(1, share.total))
    where = on_ranks([share.report for share in none or few], reports) if none or few else ""
    seen = (*_few(traced.observations), *layers)
    if none and not traced.observations:
        return refuted(
            Rung.BUILT, f"{worst}{where}", *seen,
            remedy="use an FP8 checkpoint, or set --quantization fp8",
        )  # fmt: skip
    rung = Rung.EXECUTED if traced.is_most else Rung.BUILT
    if few:
        conflicts = (f"{traced}, but {worst}{where}",) if none else ()
        return inconclusive(
            rung, f"{worst}{where}", *seen, conflicts=conflicts,
            remedy="use a checkpoint whose linear layers are FP8, or set --quantization fp8",
        )  # fmt: skip
    lack = [report for report in replica.reports if report not in reports]
    if lack:
        text = f"{worst}, but the part quant_methods is missing{on_ranks(lack, replica.reports)}"
        return inconclusive(rung, text, *seen, remedy=_GIVE_REPORT)
    ran = f"{traced}; " if traced.observations else ""
    return proven(rung, f"{ran}{worst}", *seen)
