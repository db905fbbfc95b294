"""What the in-engine report says was built, in words: one text a rank for each fact."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from configurator.evidence.model import Head, Megakernel, ModelReport, Report
from configurator.report.html_text import numbers, shown

_WORDS = 200
_MOST_DRAFTS = 4
_KINDS = {
    "module": "the target's module itself",
    "tensors": "the target's weight and scales",
    "weight": "the target's weight without its scales",
    "copy": "an equal copy",
    "other": "another weight",
    "unknown": "",
}


def by_rank(
    reports: Iterable[Report], look: Callable[[Report], str]
) -> list[tuple[str, list[int | None]]]:
    """What the ranks report, and which of them; nothing where none says anything."""
    found: dict[str, list[int | None]] = {}
    for report in reports:
        text = look(report)
        if text:
            found.setdefault(text, []).append(report.rank)
    return list(found.items())


def _of_target(look: Callable[[ModelReport], str]) -> Callable[[Report], str]:
    return lambda report: look(report.target) if report.target is not None else ""


def _of_drafts(look: Callable[[ModelReport], str]) -> Callable[[Report], str]:
    def every(report: Report) -> str:
        texts = dict.fromkeys(look(draft) for draft in report.drafts[:_MOST_DRAFTS])
        return "; ".join(text for text in texts if text)

    return every


def _text(value: object) -> str:
    return "" if value is None or value == "" else shown(value, longest=_WORDS)


def _runners(model: ModelReport) -> str:
    """`humming (12 of 15 layers: ...), triton (3 of 15 layers: ...)`."""
    layers: dict[str, list[str]] = {}
    for layer in model.moe_layers:
        # Without a runner object the name is only what the layer says of itself.
        word = " (no runner object)" if layer.has_runner is False else ""
        layers.setdefault((layer.runner or "not known") + word, []).append(layer.name)
    if len(layers) <= 1:
        return shown(next(iter(layers), ""), longest=_WORDS)
    parts = []
    for runner, names in sorted(layers.items(), key=lambda item: (-len(item[1]), item[0])):
        listed = ", ".join(names[:4]) + (" and more" if len(names) > 4 else "")
        parts.append(f"{runner} ({len(names)} of {len(model.moe_layers)} layers: {listed})")
    return shown(", ".join(parts), longest=2 * _WORDS)


def _head(head: Head | None) -> str:
    if head is None:
        return ""
    applied = {True: "applied", False: "not applied", None: ""}[head.quant_method_applied]
    scales = f"scales {', '.join(sorted(head.scales))}" if head.scales else "no scale"
    shape = " by ".join(map(str, head.shape))
    method = " ".join(part for part in (head.quant_method, applied) if part)
    return shown(", ".join(p for p in (head.dtype, shape, method, scales) if p), longest=_WORDS)


def _sharing(draft: ModelReport) -> str:
    sharing = draft.sharing
    if sharing is None:
        return ""
    compared = f" (compared: {sharing.compared})" if sharing.compared else ""
    return shown(f"{_KINDS[sharing.kind]}{compared}".strip(), longest=_WORDS)


def _graphs(model: ModelReport) -> str:
    sizes = model.graph_batch_sizes
    if sizes is None:
        return ""
    return shown(numbers(sizes), longest=_WORDS) if sizes else "none captured"


def _megakernel(kernel: Megakernel | None) -> str:
    if kernel is None:
        return ""
    parts = [kernel.built_class]
    if kernel.widths:
        parts.append(f"widths {numbers(kernel.widths)}")
    if kernel.graphs is not None and kernel.covered is not None:
        parts.append(f"{len(kernel.covered)} of {len(kernel.graphs)} decode graphs covered")
    if kernel.capture_checked is False:
        parts.append("capture not checked as a whole")
    if kernel.forward_installed is False:
        parts.append("forward not installed")
    return shown(", ".join(parts), longest=_WORDS)


def _weights(model: ModelReport) -> str:
    own = {part: size for part, size in model.weight_bytes.items() if part != "counted_before"}
    if not own:
        return ""
    parts = ", ".join(f"{part} {_size(size)}" for part, size in own.items() if size)
    return shown(f"{_size(sum(own.values()))}: {parts}" if parts else "none", longest=_WORDS)


def _size(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.2f} MB"


def _software(report: Report) -> str:
    return _text(", ".join(f"{name} {version}" for name, version in report.versions.items()))


def _attention(draft: ModelReport) -> str:
    return _text(", ".join(f"{step} {name}" for step, name in draft.draft_attention.items()))


OF_FIELDS: dict[str, Callable[[Report], str]] = {
    "moe_runner_backend": _of_target(_runners),
    "kv_cache_dtype": _of_target(lambda model: _text(model.kv_pool_dtype or model.kv_cache_dtype)),
    "decode_attention_backend": _of_target(lambda model: _text(model.decode_attention)),
    "prefill_attention_backend": _of_target(lambda model: _text(model.prefill_attention)),
    "quantization": _of_target(lambda model: _text(model.quantization)),
    "speculative_algorithm": _of_drafts(lambda draft: _text(f"draft {draft.model_class}")),
}
"""What the in-engine report says of fields of /server_info."""
FACTS: dict[str, Callable[[Report], str]] = {
    "model class": _of_target(lambda model: _text(model.model_class)),
    "LM head": _of_target(lambda model: _head(model.head)),
    "attention class": _of_target(lambda model: _text(model.attention_class)),
    "decode graphs, batch sizes": _of_target(_graphs),
    "megakernel": _of_target(lambda model: _megakernel(model.megakernel)),
    "weights": _of_target(_weights),
    "draft: LM head": _of_drafts(lambda draft: _head(draft.head)),
    "draft: LM head against target": _of_drafts(_sharing),
    "draft: MoE runner": _of_drafts(_runners),
    "draft: attention": _of_drafts(_attention),
    "draft: graphs, batch sizes": _of_drafts(_graphs),
    "draft: megakernel": _of_drafts(lambda draft: _megakernel(draft.megakernel)),
    "draft: weights": _of_drafts(_weights),
    "device": lambda report: _text(report.device.get("name") or report.device.get("type")),
    "software": _software,
}
"""What only the in-engine report says."""
MAY_DIFFER = frozenset({"weights", "draft: weights"})
"""Facts that are of a rank: pipeline stages and uneven shards hold different parts."""
