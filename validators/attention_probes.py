"""The probe of the attention backend."""

from __future__ import annotations

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
    generating,
    inconclusive,
    on_ranks,
    probe,
    proven,
    refuted,
)

_GIVE_REPORT = "run with the in-engine report (evidence.instrument: standard)"


@probe("attention-backend", takes="NAME", requires_value=True, proof_rung="resolved")
def attention_backend(check: Check) -> Outcome:
    """Decode attention (with speculation: verify steps) runs on the named backend.

    Proven: the in-engine report of every rank shows a backend object for decode steps whose class
    is that of the name (built), or kernels of that backend alone ran attention in the decode or
    verify steps of a trace (executed). Only where there is neither, /server_info is enough: the
    engine exposes nothing higher over HTTP, so it is proven as far as resolved; the verdict says
    that it is no more, and whether the launch command asks for the backend.

    Refuted: an object of another backend's class was built, another backend was resolved, or
    kernels of other backends alone ran attention in the decode or verify steps of a trace. A
    backend of which no kernels are known may run those of another: no trace contradicts it.

    Open: neither is known; the class of the object belongs to another name than the one that was
    resolved, which is a conflict; the class is not known, or wraps others that a report does not
    show; or one rank does not say.
    """
    wish = _one_name(check.expectation.value or "")
    objects = [_object(report) for report in check.replica.reports]
    ran = list(_ran(check.replica, check.families, wish))
    resolved = _resolved_attention(check.replica)
    seen = (
        *(one.observation for one in ran),
        *(one for each in objects for one in each.observations), *resolved,
    )  # fmt: skip
    conflicts = tuple(dict.fromkeys(each.conflict for each in objects if each.conflict))
    remedy = f"set --attention-backend {wish}, and read the log for why another was chosen"
    for one in ran:
        if one.backends and wish not in one.backends:
            text = f"decode attention ran kernels of {one}, not of {wish}"
            return refuted(Rung.EXECUTED, text, *seen, remedy=remedy, conflicts=conflicts)
    for each in objects:
        if each.answer(wish) == "other":
            rung = Rung.BUILT if each.names and wish not in each.names else Rung.RESOLVED
            text = f"decode attention is {each}, not {wish}"
            return refuted(rung, text, *seen, remedy=remedy, conflicts=conflicts)
    against = [one for one in resolved if _one_name(str(one.value)) != wish]
    if against and not any(each.name for each in objects):
        text = f"decode attention is {against[0].value} (server_info), not {wish}"
        return refuted(Rung.RESOLVED, text, *seen, remedy=remedy)
    conflicts += tuple(f"/server_info says {one.value}, a report {wish}" for one in against)
    if conflicts:
        return inconclusive(
            Rung.RESOLVED, conflicts[0], *seen, remedy=_GIVE_REPORT, conflicts=conflicts
        )
    if ran and all(one.backends == {wish} for one in ran):
        text = f"decode attention ran kernels of {wish} ({ran[0].observation.value})"
        return proven(Rung.EXECUTED, text, *seen)
    if objects:
        return _of_objects(objects, wish, seen)
    if resolved:
        text = f"{resolved[0].subject} resolved to {wish}: no more than resolved, "
        text += "no evidence shows what ran"
        if _is_asked(check.replica, wish):
            text += ", and the launch command asks for it"
        return proven(Rung.RESOLVED, text, *resolved)
    return inconclusive(None, "nothing shows the attention backend", remedy=_GIVE_REPORT)


@dataclass(frozen=True, slots=True)
class _Ran:
    """The kernels of attention in the decode or verify steps of one trace."""

    observation: Observation
    backends: frozenset[str]
    """Backends that run all of them; empty: of several families, which no one backend runs."""

    def __str__(self) -> str:
        return f"{' or '.join(sorted(self.backends))} ({self.observation.value})"


def _ran(replica: Replica, families: Families, wish: str) -> Iterator[_Ran]:
    """Only steps of which the kernels of attention are all of families that name a backend."""
    if not families.knows("attention", wish):
        return
    for trace, step in generating(replica):
        kernels = [one for one in step.by_name if families.of(one.name).does("attention")]
        found = [frozenset(families.of(one.name).backends) for one in kernels]
        if found and all(found):
            name, backends = kernels[0].name[:80], frozenset.intersection(*found)
            seen = Observation(
                "trace", "attention kernel", name, Rung.EXECUTED, trace.file,
                aside=backends != {wish},
            )  # fmt: skip
            yield _Ran(seen, backends)


@dataclass(frozen=True, slots=True)
class _Object:
    """What one rank says of the attention backend of its decode steps."""

    report: Report
    name: str
    """The name that the engine resolved, which says nothing of the object; empty: not said."""
    kind: str
    """Class of the object; empty: not said."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the class is chosen by; (): it wraps others, or is not known."""
        return _CLASSES.get(self.kind, ())

    @property
    def conflict(self) -> str:
        """The object is not of the class of its name; empty: it is, or one is not known."""
        if not (self.name and self.names) or self.name in self.names:
            return ""
        return f"the runner says {self.name}, but its attention object is {self.kind}"

    @property
    def observations(self) -> Iterator[Observation]:
        """The class is what was built; the name is what was resolved."""
        facts = (("class of decode attention", self.kind if self.names else "", Rung.BUILT),
                 ("decode attention", self.name, Rung.RESOLVED))  # fmt: skip
        for subject, value, rung in facts:
            if value:
                yield Observation(
                    "report", subject, value, rung, self.report.file, self.kind,
                    rank=self.report.rank,
                )  # fmt: skip

    def answer(self, wish: str) -> str:
        """Whether this rank has the wished backend: good, other, conflict, silent or unknown."""
        if self.name and self.name != wish:
            # An object of the wished class is no proof of another backend.
            return "conflict" if self.conflict and wish in self.names else "other"
        if self.names and wish not in self.names:
            return "conflict" if self.name else "other"
        return "silent" if not self.name else "good" if self.names else "unknown"

    def __str__(self) -> str:
        words = [f"{self.name} (report)"] if self.name else []
        return ", of class ".join([*words, self.kind] if self.kind else words)


def _object(report: Report) -> _Object:
    model = report.target
    if model is None:
        return _Object(report, "", "")
    outer, inner = model.attention_class or "", model.decode_attention_class or ""
    return _Object(report, _one_name(model.decode_attention or ""), inner or outer)


def _of_objects(objects: list[_Object], wish: str, seen: tuple[Observation, ...]) -> Outcome:
    """The ranks that say nothing, or nothing of the object; proven where every one has it."""
    reports = [each.report for each in objects]
    rung = Rung.BUILT if any(each.names for each in objects) else Rung.RESOLVED
    silent = [each.report for each in objects if each.answer(wish) == "silent"]
    if silent:
        text = f"decode_attention is not known{on_ranks(silent, reports)}"
        text = f"{wish} was built, but {text}" if len(silent) < len(reports) else text
        return inconclusive(rung if seen else None, text, *seen, remedy=_GIVE_REPORT)
    unknown = [each for each in objects if each.answer(wish) == "unknown"]
    if unknown:
        where = on_ranks([each.report for each in unknown], reports)
        kind = f"the class {unknown[0].kind}" if unknown[0].kind else "no class"
        text = f"{wish} is resolved, but its report shows {kind} of the attention object{where}"
        text += ", which wraps others or is not known" if unknown[0].kind else ""
        return inconclusive(
            Rung.RESOLVED, text, *seen, remedy=f"{_GIVE_REPORT} of this version of configurator"
        )
    kinds = ", ".join(dict.fromkeys(each.kind for each in objects))
    text = f"the runner was built with {wish} for decode attention ({kinds})"
    return proven(Rung.BUILT, text, *seen)


def _resolved_attention(replica: Replica) -> list[Observation]:
    info = replica.server_info or replica.server_info_startup or {}
    fields = ("decode_attention_backend", "attention_backend")
    return [
        Observation("server_info", field, name, Rung.RESOLVED, f"server_info.json#/{field}")
        for field in fields
        if isinstance(name := info.get(field), str) and name
    ][:1]


def _is_asked(replica: Replica, wish: str) -> bool:
    """The launch command names the backend, so that /server_info may only repeat it."""
    fields = ("decode_attention_backend", "attention_backend")
    return any(_one_name(str(replica.requested.get(field))) == wish for field in fields)


def _one_name(name: str) -> str:
    """One name for one backend: the engine takes two of them under an old name as well."""
    plain = name.lower()
    return {"nsa": "dsa", "compressed": "dsv4"}.get(plain, plain)


_CLASSES = {
    "AiterAttnBackend": ("aiter",),
    "AscendAttnBackend": ("ascend",),
    "CuteDslMLABackend": ("cutedsl_mla",),
    "CuteDslMLAPrefillBackend": ("trtllm_mla",),
    "CutlassMLABackend": ("cutlass_mla",),
    "DeepseekSparseAttnBackend": ("dsa",),
    "DeepseekV4AscendAttnBackend": ("dsv4",),
    "DeepseekV4AttnBackend": ("dsv4",),
    "DeepseekV4HipRadixBackend": ("dsv4",),
    "DeepseekV4MegaAttnBackend": ("dsv4",),
    "DeepseekV4TrtllmAttnBackend": ("dsv4",),
    "DualChunkFlashAttentionBackend": ("dual_chunk_flash_attn",),
    "FlashAttentionBackend": ("fa3", "fa4"),
    "FlashInferAttnBackend": ("flashinfer",),
    "FlashInferMLAAttnBackend": ("flashinfer",),
    "FlashMLABackend": ("flashmla",),
    "HPCOpsAttnBackend": ("hpc_ops",),
    "IntelAMXAttnBackend": ("intel_amx",),
    "LLaDA2CFGFlashInferAttnBackend": ("llada2_cfg_flashinfer",),
    "Mamba2AttnBackend": ("mamba2",),
    "MiniCPMSparseBackend": ("minicpm_flashattn", "minicpm_flashinfer"),
    "MusaFlashAttentionBackend": ("fa3",),
    "QwenSparseAttnBackend": ("qsa",),
    "TRTLLMHAAttnBackend": ("trtllm_mha",),
    "TRTLLMMLABackend": ("trtllm_mla",),
    "TokenspeedMLABackend": ("tokenspeed_mla",),
    "TorchFlexAttnBackend": ("flex_attention",),
    "TorchNativeAttnBackend": ("torch_native",),
    "TritonAttnBackend": ("triton",),
    "WaveAttnBackend": ("wave",),
    "XPUAttentionBackend": ("intel_xpu",),
}
"""Classes that the registries of SGLang 0.5.17 and 0.5.23 build, and the names they are chosen by.

A class that wraps others (HybridAttnBackend, HybridLinearAttnBackend, TboAttnBackend and the like)
is not among them: the report shows what is inside. The version of FlashAttention is in the name
alone."""
