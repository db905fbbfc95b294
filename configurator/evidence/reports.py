"""In-engine reports of either shape as `Report`: what every rank was built as.

Two shapes are known: one report a rank once everything is built (`schema: 1`), and the reports of
the LM heads alone (`schema: head-probe/1`), written early and again when all is ready. A value of
an unexpected type becomes None: a report must never stop a judgement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from configurator.evidence.model import Head, ModelReport, MoeLayer, Report, Sharing

_EARLY = "after_head_sharing"
# Stages in the order in which a start goes through them.
_ORDER = {_EARLY: 0, "ready": 1}
_STAGE_IN_NAME = re.compile(r"-(?:early|ready)(?=[-.])")


def parse_report(file: str, data: Any) -> Report | None:
    """The report in `data`; None when it is no report."""
    if not isinstance(data, dict) or not isinstance(data.get("target"), dict):
        return None
    target = _model(data["target"], is_draft=False)
    drafts = tuple(
        _model(draft, is_draft=True, target=data["target"]) for draft in _dicts(data.get("drafts"))
    )
    environment = _dict(data.get("env"))
    undeclared = environment.get("unknown_set")
    return Report(
        file=file,
        rank=_rank(data),
        stage=str(data.get("stage", "ready")),
        target=target,
        drafts=drafts,
        env_undeclared=tuple(map(str, undeclared)) if isinstance(undeclared, list) else (),
        simulated_acceptance={
            str(name): str(value) for name, value in _dict(environment.get("simulate_acc")).items()
        },
        raw=data,
    )


def latest(reports: Iterable[Report]) -> tuple[Report, ...]:
    """One report a rank: the one of the last stage that it reached."""
    best: dict[object, Report] = {}
    for report in reports:
        # Reports that do not know their rank are kept apart by their file, less the stage in it.
        # One tensor parallel rank exists once in every pipeline stage and data parallel group.
        place = _dict(_dict(report.raw).get("rank"))
        key = (
            (report.rank, str(place.get("pp_rank")), str(place.get("dp_rank")))
            if report.rank is not None
            else _STAGE_IN_NAME.sub("", report.file)
        )
        kept = best.get(key)
        if kept is None or _ORDER.get(report.stage, 1) >= _ORDER.get(kept.stage, 1):
            best[key] = report
    return tuple(best.values())


def _rank(data: dict[str, Any]) -> int | None:
    rank = _dict(data.get("rank")).get("tp_rank", data.get("tp_rank"))
    return rank if isinstance(rank, int) and not isinstance(rank, bool) else None


def _model(
    data: dict[str, Any], *, is_draft: bool, target: dict[str, Any] | None = None
) -> ModelReport:
    layers = tuple(_layer(layer) for layer in _dicts(data.get("moe_layers")))
    graphs = data.get("graph_bs")
    return ModelReport(
        model_class=str(data.get("model_class", "")),
        is_draft=is_draft,
        quantization=_text(data.get("quantization")),
        kv_cache_dtype=_dtype(data.get("kv_cache_dtype")),
        decode_attention=_text(data.get("decode_attention")),
        prefill_attention=_text(data.get("prefill_attention")),
        moe_layers=layers,
        linear_methods={
            str(name): count
            for name, count in _dict(data.get("quant_methods")).items()
            if isinstance(count, int)
        },
        head=_head(data.get("lm_head")),
        sharing=_sharing(data, target) if target is not None else None,
        graph_batch_sizes=(
            tuple(size for size in graphs if isinstance(size, int))
            if isinstance(graphs, list)
            else None
        ),
    )


def _layer(data: dict[str, Any]) -> MoeLayer:
    runner = str(data.get("runner_backend") or data.get("layer_backend") or "")
    return MoeLayer(
        name=str(data.get("name", "")),
        quant_method=str(data.get("quant_method", "")),
        runner=runner.rsplit(".", 1)[-1].lower(),
        runner_core=str(data.get("runner_core") or ""),
        weight_dtype=_dtype(data.get("w13_dtype")) or "",
    )


def _head(data: Any) -> Head | None:
    if not isinstance(data, dict):
        return None
    tensors = _dict(data.get("tensors"))
    weight = _dict(tensors.get("weight"))
    shape, size = weight.get("shape"), weight.get("nbytes")
    applied = data.get("quant_method_applied")
    return Head(
        dtype=_dtype(weight.get("dtype")),
        shape=tuple(n for n in shape if isinstance(n, int)) if isinstance(shape, list) else (),
        nbytes=size if isinstance(size, int) else None,
        module=str(data.get("module", "")),
        quant_method=str(data.get("quant_method", "")),
        quant_method_applied=applied if isinstance(applied, bool) else None,
        scales={
            name: _text(_dict(tensor).get("value"))
            for name, tensor in tensors.items()
            if name != "weight"
        },
        use_fp32=data.get("use_fp32_lm_head") is True,
        path_taken=str(data.get("path_taken", "")),
    )


def _sharing(draft: dict[str, Any], target: dict[str, Any]) -> Sharing:
    """How the draft's head relates to the target's, from either shape of the report."""
    said = _dict(draft.get("head_shared_with_target")) or _dict(draft.get("sharing_with_target"))
    weight = _dict(said.get("weight")) or said
    ours = _dict(_dict(_dict(target.get("lm_head")).get("tensors")))
    theirs = _dict(_dict(_dict(draft.get("lm_head")).get("tensors")))
    scales = [name for name in ours if name != "weight"]
    values: tuple[str, ...] = ()
    for name in scales:
        pair = _dict(said.get(name)).get("values")
        values += tuple(map(str, pair)) if isinstance(pair, list) else ()
    return Sharing(
        same_module=_bool(said.get("same_module")),
        same_weight=_either(weight, "same_parameter", "same_storage"),
        same_content=_bool(weight.get("same_content")),
        same_scales=_same_scales(said, scales, ours, theirs),
        scale_values=values,
    )


def _same_scales(
    said: dict[str, Any], scales: list[str], ours: dict[str, Any], theirs: dict[str, Any]
) -> bool | None:
    if not scales:
        return None
    if _bool(said.get("same_module")):
        return True
    same = []
    for name in scales:
        stated = _either(_dict(said.get(name)), "same_parameter", "same_storage")
        if stated is None:
            mine, other = _dict(ours.get(name)), _dict(theirs.get(name))
            places = [key for key in ("storage_ptr", "storage", "ptr") if key in mine]
            stated = bool(other) and any(mine[key] == other.get(key) for key in places)
        same.append(stated)
    return all(same)


def _either(data: dict[str, Any], *keys: str) -> bool | None:
    known = [data[key] for key in keys if isinstance(data.get(key), bool)]
    return any(known) if known else None


def _bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return None if value is None or isinstance(value, dict | list) else str(value)


def _dtype(value: Any) -> str | None:
    return str(value).removeprefix("torch.") if isinstance(value, str) else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
