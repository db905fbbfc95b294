"""Probes of backends and precision: attention, KV cache, FP8 weights."""

from __future__ import annotations

import re
from collections.abc import Iterator

from configurator import (
    Check,
    Observation,
    Outcome,
    Replica,
    Rung,
    Trace,
    inconclusive,
    probe,
    proven,
    refuted,
)

_KV_LINE = re.compile(r"KV [Cc]ache (?:is )?allocated\.? dtype: (?:torch\.)?(\w+)")
_FP8_GEMM = re.compile(r"qqtst|e4m3|float_e4m3|fp8", re.IGNORECASE)
_GEMM = re.compile(r"gemm|nvjet|cutlass|scaled_mm|matmul", re.IGNORECASE)
_NOT_LINEAR = re.compile(r"quant|moe|attention|cache", re.IGNORECASE)
_GIVE_REPORT = "run with the in-engine report (evidence.instrument: standard)"


@probe("attention-backend", takes="NAME", requires_value=True, proof_rung="resolved")
def attention_backend(check: Check) -> Outcome:
    """Decode attention runs on the named backend.

    Proven: the in-engine report names it for the runner that was built, or /server_info resolved
    it. The engine exposes nothing higher over HTTP, so the latter is proven as far as resolved
    and the verdict says that it is no more than that.

    Refuted: another backend was built or resolved.

    Open: neither is known.
    """
    wish = (check.expectation.value or "").lower()
    built = [
        Observation(
            "report", "decode attention", report.target.decode_attention, Rung.BUILT, report.file,
            rank=report.rank,
        )
        for report in check.replica.reports
        if report.target is not None and report.target.decode_attention
    ]  # fmt: skip
    info = check.replica.server_info or check.replica.server_info_startup or {}
    field = "decode_attention_backend"
    if info.get(field) is None:
        field = "attention_backend"
    resolved = [
        Observation("server_info", field, info[field], Rung.RESOLVED, f"server_info.json#/{field}")
    ] if info.get(field) is not None else []  # fmt: skip
    remedy = f"set --attention-backend {wish}, and read the log for why another was chosen"
    for seen in built or resolved:
        if str(seen.value).lower() != wish:
            text = f"decode attention is {seen.value} ({seen.source}), not {wish}"
            return refuted(seen.rung, text, *built, *resolved, remedy=remedy)
    if built:
        text = f"the runner was built with {wish} for decode attention"
        return proven(Rung.BUILT, text, *built, *resolved)
    if resolved:
        text = f"{field} resolved to {wish}: no more than resolved, no evidence shows what ran"
        return proven(Rung.RESOLVED, text, *resolved)
    return inconclusive(None, "nothing shows the attention backend", remedy=_GIVE_REPORT)


@probe("kv-cache-dtype", takes="NAME", requires_value=True, proof_rung="built")
def kv_cache_dtype(check: Check) -> Outcome:
    """The KV cache holds numbers of the named type (`fp8_e4m3` and `float8_e4m3fn` are one).

    Proven: the log names the type of the cache that was allocated, or the in-engine report that
    of the pool (built). With `auto` any type will do.

    Refuted: a cache of another type was allocated, or /server_info resolved another.

    Open: only /server_info says it, which is an echo of the flag, or nothing does.
    """
    wish = _dtype(check.expectation.value or "")
    built = list(_kv_caches(check.replica))
    if built:
        other = [seen for seen in built if wish != "auto" and _dtype(str(seen.value)) != wish]
        if other:
            text = f"the KV cache is {other[0].value}, not {check.expectation.value}"
            return refuted(
                Rung.BUILT, text, *built, remedy=f"set --kv-cache-dtype {check.expectation.value}"
            )
        return proven(Rung.BUILT, f"the KV cache is allocated as {built[0].value}", *built)
    info = check.replica.server_info or check.replica.server_info_startup or {}
    value = info.get("kv_cache_dtype")
    remedy = f"keep the server's log from its start, or {_GIVE_REPORT}"
    if value is None:
        return inconclusive(None, "nothing shows the type of the KV cache", remedy=remedy)
    seen = Observation(
        "server_info", "kv_cache_dtype", value, Rung.RESOLVED, "server_info.json#/kv_cache_dtype"
    )
    if wish != "auto" and _dtype(str(value)) not in ("auto", wish):
        text = f"the engine resolved the KV cache to {value}, not {check.expectation.value}"
        return refuted(
            Rung.RESOLVED, text, seen, remedy=f"set --kv-cache-dtype {check.expectation.value}"
        )
    text = f"/server_info says kv_cache_dtype {value}: an echo of the flag, no proof"
    return inconclusive(Rung.RESOLVED, text, seen, remedy=remedy)


def _dtype(name: str) -> str:
    """One name for one type."""
    plain = name.lower().removeprefix("torch.")
    return _SAME_DTYPE.get(plain, plain)


_SAME_DTYPE = {
    "bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2", "float8_e4m3": "float8_e4m3fn",
}  # fmt: skip


def _kv_caches(replica: Replica) -> Iterator[Observation]:
    for report in replica.reports:
        if report.target is not None and report.target.kv_cache_dtype:
            dtype = report.target.kv_cache_dtype.removeprefix("torch.")
            if dtype != "auto":
                yield Observation(
                    "report", "KV cache dtype", dtype, Rung.BUILT, report.file, rank=report.rank
                )
    for line in replica.log or ():
        found = _KV_LINE.search(line.text)
        if found:
            locator = f"server.log:{line.number}"
            yield Observation("log", "KV cache dtype", found[1], Rung.BUILT, locator)


@probe("fp8-weights", proof_rung="built")
def fp8_weights(check: Check) -> Outcome:
    """The linear layers hold FP8 weights and run FP8 GEMMs; the LM head is not meant.

    Proven: a trace has FP8 GEMM kernels (executed), or the in-engine report shows linear layers
    with an FP8 quantization method (built).

    Refuted: the report shows only unquantized linear layers.

    Open: neither report nor trace. `quantization` in /server_info is an echo of the flag, or null
    when the checkpoint decides.
    """
    traced = [
        Observation(
            "trace", "GEMM kernel", kernel.name, Rung.EXECUTED, trace.file,
            f"{kernel.count} launches",
        )
        for trace in check.replica.traces
        for kernel in trace.kernels
        if _is_fp8_gemm(kernel.name) and not _only_the_head(kernel.name, trace)
    ]  # fmt: skip
    built = list(_linear_layers(check.replica))
    fp8 = [seen for seen, is_fp8 in built if is_fp8]
    others = [seen for seen, is_fp8 in built if not is_fp8]
    if traced:
        text = f"the trace has FP8 GEMMs: {str(traced[0].value)[:80]}"
        return proven(Rung.EXECUTED, text, *traced[:3], *fp8)
    if fp8:
        text = f"linear layers are built with {fp8[0].value}"
        if others:
            text += f"; others are {others[0].value}"
        return proven(Rung.BUILT, text, *fp8, *others)
    if others:
        text = f"every linear layer is built with {others[0].value}"
        return refuted(
            Rung.BUILT, text, *others, remedy="use an FP8 checkpoint, or set --quantization fp8"
        )
    info = check.replica.server_info or {}
    value = info.get("quantization")
    if value is None:
        return inconclusive(None, "nothing shows the precision of weights", remedy=_GIVE_REPORT)
    seen = Observation(
        "server_info", "quantization", value, Rung.RESOLVED, "server_info.json#/quantization"
    )
    text = f"/server_info says quantization {value}: an echo of the flag, no proof"
    return inconclusive(Rung.RESOLVED, text, seen, remedy=_GIVE_REPORT)


def _is_fp8_gemm(name: str) -> bool:
    return bool(
        _FP8_GEMM.search(name)
        and (_GEMM.search(name) or "qqtst" in name)
        and not _NOT_LINEAR.search(name)
    )


def _only_the_head(name: str, trace: Trace) -> bool:
    """The kernel is the LM head's, as the last GEMM of a step."""
    return any(step.last_gemm == name for step in trace.steps)


def _linear_layers(replica: Replica) -> Iterator[tuple[Observation, bool]]:
    """The target's linear layers by quantization method, and whether it is an FP8 one."""
    for report in replica.reports:
        methods = report.target.linear_methods if report.target is not None else {}
        for pair, count in methods.items():
            layer, _, method = pair.partition(":")
            if not layer.endswith("Linear"):
                continue
            seen = Observation(
                "report", f"{count} x {layer}", method, Rung.BUILT, report.file, rank=report.rank
            )
            yield seen, "fp8" in method.lower()
