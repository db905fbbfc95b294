"""One model of an in-engine report, target or draft, in any shape of the report."""

from __future__ import annotations

from typing import Any

from configurator.evidence.model import (
    Graphs,
    Head,
    Megakernel,
    ModelReport,
    MoeLayer,
    Sharing,
)
from configurator.evidence.report_values import (
    as_bool,
    as_dict,
    as_dicts,
    as_dtype,
    as_int,
    as_ints,
    as_text,
    texts,
)


def parse_model(
    data: dict[str, Any], *, is_draft: bool, target: dict[str, Any] | None = None
) -> ModelReport:
    """The model in `data`; a draft is compared with the `target` of the same report."""
    graphs = {
        str(step): parsed
        for step, value in as_dict(data.get("graphs")).items()
        if (parsed := _graphs(value)) is not None
    }
    return ModelReport(
        model_class=str(data.get("model_class", "")),
        is_draft=is_draft,
        quantization=as_text(data.get("quantization")),
        kv_cache_dtype=as_dtype(data.get("kv_cache_dtype")),
        decode_attention=as_text(data.get("decode_attention")),
        prefill_attention=as_text(data.get("prefill_attention")),
        moe_layers=tuple(
            _layer(layer) for layer in as_dicts(data.get("moe_layers")) if "error" not in layer
        ),
        linear_methods=_counts(data.get("quant_methods")),
        head=_head(data.get("lm_head")),
        sharing=_sharing(data, target) if target is not None else None,
        graph_batch_sizes=_sizes(data, graphs),
        role=str(data.get("role") or ""),
        path=str(data.get("model_path") or ""),
        dtype=as_dtype(data.get("dtype")),
        kv_pool_dtype=as_dtype(as_dict(data.get("kv_pool")).get("dtype")),
        attention_class=as_text(data.get("attention_class") or data.get("attn_backend_class")),
        decode_attention_class=as_text(data.get("decode_attention_class")),
        draft_attention=texts(data.get("draft_attention")),
        graphs=graphs,
        megakernel=_megakernel(data.get("megakernel")),
        weight_bytes=_counts(data.get("weight_bytes")),
    )


def _counts(value: Any) -> dict[str, int]:
    return {str(k): n for k, n in as_dict(value).items() if as_int(n) is not None}


def _sizes(data: dict[str, Any], graphs: dict[str, Graphs]) -> tuple[int, ...] | None:
    """Batch sizes that were captured for decoding."""
    decode = graphs.get("decode")
    if decode is not None:
        # The table may count tokens instead of requests; then nothing of it is a batch size.
        table = set(decode.captured or ())
        both = tuple(size for size in decode.wanted if size in table)
        return both or decode.wanted
    said = as_dict(data.get("graphs"))
    if "decode" in said and said["decode"] is None:
        return ()
    return as_ints(data.get("graph_bs"))


def _graphs(data: Any) -> Graphs | None:
    if not isinstance(data, dict) or "error" in data:
        return None
    return Graphs(
        runner_class=str(data.get("class") or ""),
        wanted=as_ints(data.get("batch_sizes")) or (),
        captured=as_ints(data.get("captured")),
    )


def _megakernel(data: Any) -> Megakernel | None:
    if not isinstance(data, dict) or "error" in data:
        return None
    return Megakernel(
        built_class=str(data.get("class") or ""),
        widths=as_ints(data.get("widths")) or (),
        summary=str(data.get("summary") or ""),
        forward_installed=as_bool(data.get("forward_installed")),
        draft_sampler=as_bool(data.get("draft_sampler")),
        graphs=as_ints(data.get("graphs")),
        covered=as_ints(data.get("graphs_covered")),
        capture_checked=as_bool(data.get("capture_checked")),
    )


def _layer(data: dict[str, Any]) -> MoeLayer:
    runner, resolved = _runner(data.get("runner_backend")), _runner(data.get("layer_backend"))
    core = str(data.get("runner_core") or "")
    return MoeLayer(
        name=str(data.get("name", "")),
        quant_method=str(data.get("quant_method") or ""),
        runner=runner or resolved,
        runner_core=core,
        weight_dtype=as_dtype(data.get("w13_dtype")) or "",
        layer_class=str(data.get("layer_class") or ""),
        resolved=resolved,
        has_runner=bool(runner or core) if "runner_backend" in data else None,
        fused_func=str(data.get("fused_func") or ""),
        activations=_numbers(data.get("activations")),
    )


_NUMBERS = {
    "bfloat16": "bf16", "float16": "fp16", "float8e4m3": "fp8", "float8e5m2": "fp8",
    "float4e2m1": "fp4",
}  # fmt: skip
"""Names of the engine's libraries, and ours."""


def _numbers(value: Any) -> str:
    name = (as_text(value) or "").lower()
    return _NUMBERS.get(name, name)


def _runner(value: Any) -> str:
    """The name of a runner as the engine's enumeration prints it: MoeRunnerBackend.TRITON."""
    name = (as_text(value) or "").rsplit(".", 1)[-1].lower()
    return "" if name == "none" else name


def _head(data: Any) -> Head | None:
    if not isinstance(data, dict) or "error" in data:
        return None
    tensors = as_dict(data.get("tensors"))
    weight = as_dict(tensors.get("weight"))
    return Head(
        dtype=as_dtype(weight.get("dtype")),
        shape=as_ints(weight.get("shape")) or (),
        nbytes=as_int(weight.get("nbytes")),
        module=str(data.get("module", "")),
        quant_method=str(data.get("quant_method") or ""),
        quant_method_applied=as_bool(data.get("quant_method_applied")),
        scales={
            str(name): as_text(as_dict(tensor).get("value"))
            for name, tensor in tensors.items()
            if name != "weight"
        },
        use_fp32=data.get("use_fp32_lm_head") is True,
        path_taken=str(data.get("path_taken") or ""),
        path=str(data.get("path") or ""),
        tied=data.get("tied_to_embedding") is True,
    )


def _sharing(draft: dict[str, Any], target: dict[str, Any]) -> Sharing:
    """How the draft's head relates to the target's, from any shape of the report."""
    said = as_dict(draft.get("head_shared_with_target"))
    said = said or as_dict(draft.get("sharing_with_target"))
    if "error" in said:
        return Sharing()
    weight = as_dict(said.get("weight")) or said
    ours, theirs = _tensors(target), _tensors(draft)
    conflict = _conflict(said, weight, ours.get("weight"), theirs.get("weight"))
    if conflict:
        return Sharing(conflict=conflict)
    # What the comparison names counts, though the description of the head lost it.
    compared = [name for name, how in said.items() if isinstance(how, dict)]
    scales = [name for name in dict.fromkeys([*ours, *compared]) if name != "weight"]
    values: tuple[str, ...] = ()
    for name in scales:
        pair = as_dict(said.get(name)).get("values")
        values += tuple(map(str, pair)) if isinstance(pair, list) else ()
    return Sharing(
        same_module=as_bool(said.get("same_module")),
        same_weight=_same_tensor(weight),
        same_content=as_bool(weight.get("same_content")),
        same_scales=_same_scales(said, scales, ours, theirs),
        scale_values=values,
        compared=str(weight.get("compared") or ""),
    )


def _tensors(model: dict[str, Any]) -> dict[str, Any]:
    """Tensors of the model's head by name; {}: not reported."""
    tensors = as_dict(as_dict(model.get("lm_head")).get("tensors"))
    return {} if "error" in tensors else tensors


def _conflict(said: dict[str, Any], weight: dict[str, Any], ours: Any, theirs: Any) -> str:
    """In what one module is said to hold two weights; empty where nothing contradicts it."""
    if said.get("same_module") is not True:
        return ""
    for key in ("same_parameter", "same_storage", "same_content", "same_dtype_shape"):
        if weight.get(key) is False:
            return f"same_module is true and {key} is false"
    for key in ("dtype", "shape", "storage"):
        mine, other = as_dict(ours).get(key), as_dict(theirs).get(key)
        if mine is not None and other is not None and mine != other:
            return f"same_module is true and the weights have {key} {mine} and {other}"
    return ""


def _same_scales(
    said: dict[str, Any], scales: list[str], ours: dict[str, Any], theirs: dict[str, Any]
) -> bool | None:
    if not scales:
        return None
    if as_bool(said.get("same_module")):
        return True
    # A comparison tensor by tensor names every tensor: one that it leaves out was not compared.
    listed = {} if isinstance(said.get("weight"), dict) else theirs
    same = [
        _same_scale(said.get(name), ours.get(name), theirs.get(name), listed) for name in scales
    ]
    if False in same:
        return False
    return None if None in same else True


def _same_scale(said: Any, mine: Any, other: Any, listed: dict[str, Any]) -> bool | None:
    """Whether one scale is the draft's too; None: neither compared nor described."""
    stated = _same_tensor(as_dict(said))
    if stated is not None:
        return stated
    if other is None:
        # A head whose tensors are listed has no other; without the list nothing is known.
        return False if as_dict(said).get("only_in") == "target" or "weight" in listed else None
    places = [key for key in ("storage_ptr", "storage", "ptr") if key in as_dict(mine)]
    both = [key for key in places if key in as_dict(other)]
    return any(mine[key] == other[key] for key in both) if both else None


def _same_tensor(data: dict[str, Any]) -> bool | None:
    """One parameter or one storage; another parameter alone may still have the same storage."""
    known = [data.get("same_parameter"), data.get("same_storage")]
    return True if True in known else False if known[1] is False else None
