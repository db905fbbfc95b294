"""Reports from inside SGLang what every rank was built as.

A plugin of SGLang (entry point group `sglang.srt.plugins`): one file, standard library only. It
reads objects after the engine has built them, writes one JSON report a rank, and changes nothing
that the engine computes. The report's fields are described in docs/report-schema.md.

CONFIGURATOR_PROBE_DIR       directory of the reports, made if it is missing
CONFIGURATOR_PROBE_REQUIRED  1: the engine stops if the report cannot be made
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import Counter
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

PROBE = 1
SCHEMA = "configurator/report/1"
HOOKS_SCHEMA = "configurator/hooks/1"
KEY = "configurator_probe"
RANKS_KEY = "configurator_probe_ranks"

_SCHEDULER = "sglang.srt.managers.scheduler.Scheduler"
_DETOKENIZER = "sglang.srt.managers.detokenizer_manager"
READY_HOOK = f"{_SCHEDULER}.get_init_info"
LOADED_HOOK = f"{_SCHEDULER}.init_all_attention_backends"
# Newer engines answer from a part of their own; the scheduler's method hands on to it.
STATE_HOOKS = (
    "sglang.srt.managers.scheduler_components.internal_state"
    ".SchedulerInternalStateController.get_internal_state",
    f"{_SCHEDULER}.get_internal_state",
)

_HEADS = ("lm_head", "language_model.lm_head", "model.lm_head", "model.shared_head.head",
          "thinker.lm_head", "llm.lm_head")  # fmt: skip
_RANKS = ("tp_rank", "pp_rank", "dp_rank")
_SIZES = ("tp_size", "pp_size", "dp_size", "ep_size")
# Read by the engine without being declared in its registry.
_READ_ELSEWHERE = ("SGLANG_RUN_ID", "SGLANG_USE_CPU_ENGINE", "SGLANG_CPU_OMP_THREADS_BIND")
_SECRET = re.compile(  # as the collector has it
    r"(?!(?:\w+_)?(?:bos|eos|pad|unk|cls|sep|mask|image|audio|video|stop)_token(?![\w.-]))[\w.-]*?(?:"
    r"(?i:(?:api|access|private|admin|secret|signing|watermark)[-_ ]?keys?(?:[-_](?:b|id))?"
    r"|secrets?|passw(?:or)?d|passphrase|credentials?|authorization|(?<![a-z])(?:cookies?|creds|jwt)"
    r"|(?<!per[-_])(?<!first[-_])token|(?<=[a-z0-9][-_.])(?:auth|pwd|pat))|[a-z]Cookie"
    r"|[A-Z0-9]_(?:(?<!GRAPH_)(?<!CACHE_)KEY|(?<!PER_)(?<!FIRST_)TOKEN|PAT|PWD|AUTH)(?:_?\d+)?"
    r"|(?:SECRET|PASSWO?R?D|PASSPHRASE|CREDENTIALS?|API_?KEY|AUTH|COOKIE)(?:_[A-Z0-9]{1,32}){1,4})"
)
_IN_ADDRESS = re.compile(r"://[^/@\s]+@")
_COMPARED_BYTES = 4 << 30
_BLOCK_BYTES = 16 << 20
_BLOCKS = 32
# Two reports a start share the two seconds that the probe may take; the early one looks at a block.
_COMPARING_SECONDS = {"ready": 1.2}

_last: dict[str, Any] | None = None
_others: dict[int, dict[str, Any]] = {}
_hooks: dict[str, Any] = {"registered": [], "missing": {}}


class Run:
    """One report in the making: what failed, and which storages were seen."""

    def __init__(self, stage: str = "ready") -> None:
        self.start = time.perf_counter()
        self.comparing_seconds = _COMPARING_SECONDS.get(stage, 0)
        self.errors: list[dict[str, str]] = []
        self.storages: dict[Any, str] = {}
        self.counted: set[str] = set()

    def part(self, name: str, function: Any, *arguments: Any) -> Any:
        """What `function` returns; if it fails, the error in its place and in `errors`."""
        try:
            return function(*arguments)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:500]
            self.errors.append({"part": name, "error": text})
            return {"error": text}

    def label(self, tensor: Any) -> str:
        """A name of the tensor's storage, the same for every tensor that lies in it."""
        storage = tensor.untyped_storage()
        if not storage.nbytes():
            return "empty"
        key = (str(tensor.device), storage.data_ptr())
        return self.storages.setdefault(key, f"S{len(self.storages)}")


def get(holder: Any, path: str, default: Any = None) -> Any:
    """The attribute at a dotted path; `default` where a step of it is missing, None or fails."""
    for name in path.split("."):
        try:
            holder = getattr(holder, name, None)
        except Exception:
            return default
        if holder is None:
            return default
    return holder


def _name(thing: Any) -> str | None:
    return None if thing is None else type(thing).__name__


def _text(thing: Any) -> str | None:
    return None if thing is None else str(thing)


def _integer(thing: Any) -> int | None:
    return thing if isinstance(thing, int) and not isinstance(thing, bool) else None


def _integers(things: Any) -> list[int]:
    return sorted({thing for thing in things or () if _integer(thing) is not None})


def _value(tensor: Any) -> str:
    return repr(float(tensor.detach().float()))


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _is_a(thing: Any, *names: str) -> bool:
    """Whether a class of one of these names is among the classes of `thing`."""
    return any(kind.__name__ in names for kind in type(thing).__mro__)


def _is_tensor(thing: Any) -> bool:
    return callable(getattr(thing, "untyped_storage", None)) and hasattr(thing, "dtype")


def tensor_facts(run: Run, tensor: Any) -> dict[str, Any]:
    """dtype, shape, bytes and storage of a tensor, and its value if it is one number."""
    facts = {
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "shape": [int(size) for size in tensor.shape],
        "nbytes": _bytes(tensor),
        "device": str(tensor.device),
        "storage": run.label(tensor),
        "storage_offset": int(tensor.storage_offset()),
    }
    if tensor.numel() == 1:
        facts["value"] = _value(tensor)
    return facts


def head_of(model: Any) -> tuple[str | None, Any]:
    """Where the LM head lies in a model, and the head without a LoRA wrapper around it."""
    found = [(path, get(model, path)) for path in _HEADS]
    if not any(head is not None for _, head in found) and hasattr(model, "named_modules"):
        found = [(name, m) for name, m in model.named_modules() if _is_a(m, "ParallelLMHead")]
    for path, head in found:
        if head is not None:
            inner = get(head, "base_layer")
            return path, head if inner is None else inner
    return None, None


def head_tensors(head: Any) -> dict[str, Any]:
    """Parameters, buffers and plain tensors of a head by name."""
    tensors = dict(head.named_parameters())
    tensors.update(head.named_buffers())
    plain = {name: value for name, value in vars(head).items() if _is_tensor(value)}
    return {**plain, **tensors}


def _applied(head: Any, method: Any) -> bool | None:
    """Whether the engine would let the method compute the logits; None where it has no rule."""
    module = import_module("sglang.srt.layers.logits_processor")
    rule = getattr(module, "should_apply_lm_head_quant_method", None)
    return None if rule is None else bool(rule(head, method))


def head_facts(run: Run, part: str, model: Any) -> dict[str, Any] | None:
    """The LM head of a model; None when it has none."""
    path, head = head_of(model)
    if head is None:
        return None
    method = getattr(head, "quant_method", None)
    applied = run.part(f"{part}.quant_method_applied", _applied, head, method)
    fp32 = get(model, "logits_processor.use_fp32_lm_head")
    if fp32 is None and path is not None and "." in path:
        fp32 = get(model, path.rpartition(".")[0] + ".logits_processor.use_fp32_lm_head")
    tensors = {
        name: run.part(f"{part}.{name}", tensor_facts, run, tensor)
        for name, tensor in head_tensors(head).items()
    }
    dtype = tensors.get("weight", {}).get("dtype")
    plain = "matmul(float32 casts)" if fp32 else f"matmul(hidden cast to {dtype})"
    return {
        "path": path,
        "module": type(head).__name__,
        "quant_method": _name(method),
        "quant_method_applied": applied,
        "use_fp32_lm_head": fp32 if isinstance(fp32, bool) else None,
        "path_taken": "quant_method.apply" if applied is True else plain if dtype else None,
        "tied_to_embedding": head is get(model, "model.embed_tokens"),
        "tensors": tensors,
    }


def same_bytes(run: Run, ours: Any, theirs: Any) -> tuple[bool | None, str]:
    """Whether two tensors hold the same bytes, and how much of them was compared."""
    torch = import_module("torch")
    if ours.dtype != theirs.dtype or tuple(ours.shape) != tuple(theirs.shape):
        return False, "dtype or shape differ"
    if ours.device != theirs.device or not ours.numel() or not ours.dim():
        return None, "not compared"
    rows = int(ours.shape[0])
    size = _bytes(ours)
    block = max(1, _BLOCK_BYTES * rows // size)
    starts = list(range(0, rows, block))
    sampled = size > _COMPARED_BYTES
    if sampled:
        starts = starts[:: max(1, len(starts) // _BLOCKS)]
    for count, start in enumerate(starts):
        if count and time.perf_counter() - run.start > run.comparing_seconds:
            return True, f"sample of {count * block} of {rows} rows"
        pair = [tensor.detach()[start : start + block].contiguous() for tensor in (ours, theirs)]
        if not torch.equal(pair[0].view(torch.uint8), pair[1].view(torch.uint8)):
            return False, "all" if not sampled else "sample"
    return True, f"sample of {len(starts) * block} of {rows} rows" if sampled else "all"


def sharing_facts(run: Run, target: Any, draft: Any) -> dict[str, Any] | None:
    """How the LM head of a draft relates to the target's; None where one has no head."""
    ours, theirs = head_of(target)[1], head_of(draft)[1]
    if ours is None or theirs is None:
        return None
    one, other = (_name(getattr(head, "quant_method", None)) for head in (ours, theirs))
    facts: dict[str, Any] = {"same_module": ours is theirs, "same_quant_method": one == other}
    first, second = head_tensors(ours), head_tensors(theirs)
    for name in sorted(set(first) | set(second)):
        if name in first and name in second:
            arguments = (run, first[name], second[name], name == "weight")
            facts[name] = run.part(f"sharing.{name}", _pair, *arguments)
        else:
            facts[name] = {"only_in": "target" if name in first else "draft"}
    return facts


def _pair(run: Run, ours: Any, theirs: Any, is_weight: bool) -> dict[str, Any]:
    """One tensor of the target's head and the draft's of the same name."""
    places = [(run.label(t), int(t.storage_offset()), tuple(t.shape)) for t in (ours, theirs)]
    facts: dict[str, Any] = {
        "same_parameter": ours is theirs,
        "same_storage": places[0] == places[1] and places[0][0] != "empty",
        "same_dtype_shape": ours.dtype == theirs.dtype and places[0][2] == places[1][2],
    }
    if ours.numel() == theirs.numel() == 1:
        facts["values"] = [_value(ours), _value(theirs)]
    if is_weight and not facts["same_storage"]:
        facts["same_content"], facts["compared"] = same_bytes(run, ours, theirs)
    return facts


def moe_facts(name: str, layer: Any) -> dict[str, Any]:
    """One MoE layer: what was asked of it, and the runner that was built."""
    method = getattr(layer, "quant_method", None)
    runner = getattr(method, "runner", None)
    fused = getattr(runner, "fused_func", None)
    weights = dict(layer.named_parameters(recurse=False))
    first = next((w for key, w in weights.items() if key.startswith("w13")), None)
    return {
        "name": name,
        "layer_class": type(layer).__name__,
        "quant_method": _name(method),
        "layer_backend": _text(getattr(layer, "runner_backend", None)),
        "runner_backend": _text(getattr(runner, "runner_backend", None)),
        "runner_core": _name(getattr(runner, "runner_core", None)),
        "fused_func": None if fused is None else getattr(fused, "__qualname__", _name(fused)),
        "mxfp4_backend": _text(getattr(layer, "_dsv4_mxfp4_backend", None)),
        "w13_dtype": None if first is None else str(first.dtype),
    }


def method_counts(modules: list[tuple[str, Any]]) -> dict[str, int]:
    """`Class:QuantMethod` and how many modules are so."""
    pairs = ((module, getattr(module, "quant_method", None)) for _, module in modules)
    return dict(Counter(f"{_name(one)}:{_name(how)}" for one, how in pairs if how is not None))


def weight_bytes(run: Run, model: Any, modules: list[tuple[str, Any]]) -> dict[str, int]:
    """Bytes of parameters on this rank by component; a storage counts once in a report."""
    head = head_of(model)[1]
    experts = tuple(f"{name}." for name, module in modules if _is_a(module, "FusedMoE"))
    sums = {"embedding": 0, "head": 0, "experts": 0, "other": 0, "counted_before": 0}
    for name, module in modules:
        if module is head:
            component = "head"
        elif _is_a(module, "FusedMoE") or name.startswith(experts):
            component = "experts"
        elif _is_a(module, "VocabParallelEmbedding", "Embedding"):
            component = "embedding"
        else:
            component = "other"
        for _, tensor in module.named_parameters(recurse=False):
            label = run.label(tensor)
            seen = label in run.counted and label != "empty"
            sums["counted_before" if seen else component] += _bytes(tensor)
            run.counted.add(label)
    return sums


def graph_facts(graphs: Any) -> dict[str, Any] | None:
    """Graphs that one runner captured; None for none and for an eager runner."""
    if graphs is None or "Eager" in type(graphs).__name__:
        return None
    tables = [get(graphs, path) for path in ("backend._graphs", "graphs")]
    captured = next((_sizes(table) for table in tables if isinstance(table, dict) and table), None)
    return {
        "class": type(graphs).__name__,
        "backend": _name(getattr(graphs, "backend", None)),
        "batch_sizes": _integers(getattr(graphs, "capture_bs", None)),
        "captured": captured,
    }


def _sizes(table: dict[Any, Any]) -> list[int] | None:
    """The sizes in the keys of a table of graphs: a number, or an object that has one.

    None when the table has graphs and no key tells a size: they are captured, for who knows what.
    """
    keys = [key[0] if isinstance(key, tuple) and key else key for key in table]
    sizes = _integers([getattr(key, "size", getattr(key, "bs", key)) for key in keys])
    return sizes if sizes or not table else None


def megakernel_facts(model: Any, runner: Any = None) -> dict[str, Any] | None:
    """What a megakernel built for this model, and which graphs it covers; None without one."""
    built = vars(model).get("_megakernel")
    if built is None:
        return None
    forward = vars(model).get("forward")
    cells = getattr(forward, "__closure__", None) or ()
    tables = [getattr(cell.cell_contents, "captured", None) for cell in cells]
    steps = next((table for table in tables if isinstance(table, dict) and table), None)
    # The engine's own check looks once all graphs are captured: before, a part of them is known.
    hooks = [hook for hook in get(runner, "capture_tail_hooks") or () if hasattr(hook, "is_done")]
    checks = [hook.is_done for hook in hooks if get(hook, "dispatch.built") is built]
    summary = getattr(built, "summary", None)
    return {
        "class": type(built).__name__,
        "widths": _integers(getattr(built, "widths", None)),
        "summary": str(summary())[:300] if callable(summary) else None,
        "forward_installed": forward is not None,
        "draft_sampler": getattr(built, "draft_sampler", None) is not None,
        "graphs": steps and _integers(steps),
        "graphs_covered": steps and _integers(size for size in steps if steps[size] is not None),
        "capture_checked": next(iter(checks), None),
    }


def pool_facts(runner: Any) -> dict[str, Any] | None:
    """The KV pool that was allocated."""
    pool = getattr(runner, "token_to_kv_pool", None)
    if pool is None:
        return None
    types = {key: _text(getattr(pool, key, None)) for key in ("dtype", "store_dtype")}
    return {"class": type(pool).__name__, **types}


def decode_backend(runner: Any) -> Any:
    """The attention backend of decode steps, or of verify steps, inside what may wrap it."""
    backend = get(runner, "decode_attn_backend") or get(runner, "attn_backend")
    drafts = get(runner, "spec_algorithm.name", "NONE") != "NONE"
    for _ in range(4):
        # A hybrid verifies with its prefill backend unless it is told otherwise.
        by_prefill = drafts and get(backend, "spec_attn_is_decode") is False
        own = "prefill_backend" if by_prefill else "decode_backend"
        parts = [get(backend, name) for name in (own, "full_attn_backend", "primary", "dense")]
        # A backend may also keep the name of a kernel under one of these.
        inner = [part for part in parts if type(part).__name__.endswith("Backend")]
        if not inner:
            break
        backend = inner[0]
    return backend


def model_facts(run: Run, part: str, runner: Any) -> dict[str, Any]:
    """One model runner, target or draft."""
    model = runner.model
    modules = run.part(f"{part}.modules", lambda: list(model.named_modules()))
    modules = modules if isinstance(modules, list) else []
    experts = [(name, module) for name, module in modules if _is_a(module, "FusedMoE")]
    graphs = get(runner, "decode_cuda_graph_runner") or get(runner, "graph_runner")
    config = getattr(runner, "model_config", None)
    decode = run.part(f"{part}.graphs", graph_facts, graphs)
    return {
        "model_class": type(model).__name__,
        "model_path": os.path.basename(str(getattr(config, "model_path", "")).rstrip("/")),
        "is_draft": bool(getattr(runner, "is_draft_worker", False)),
        "quantization": _text(getattr(config, "quantization", None)),
        "dtype": _text(getattr(runner, "dtype", None)),
        "kv_cache_dtype": _text(getattr(runner, "kv_cache_dtype", None)),
        "kv_pool": run.part(f"{part}.kv_pool", pool_facts, runner),
        "prefill_attention": _text(getattr(runner, "prefill_attention_backend_str", None)),
        "decode_attention": _text(getattr(runner, "decode_attention_backend_str", None)),
        "attention_class": _name(getattr(runner, "attn_backend", None)),
        "decode_attention_class": _name(decode_backend(runner)),
        "attention_layers": sum(_is_a(module, "RadixAttention") for _, module in modules),
        "moe_layers": [run.part(f"{part}.{name}", moe_facts, name, m) for name, m in experts],
        "quant_methods": run.part(f"{part}.quant_methods", method_counts, modules),
        "lm_head": run.part(f"{part}.lm_head", head_facts, run, f"{part}.lm_head", model),
        "graphs": {"decode": decode},
        "megakernel": run.part(f"{part}.megakernel", megakernel_facts, model, runner),
        "weight_bytes": run.part(f"{part}.weight_bytes", weight_bytes, run, model, modules),
    }


def target_runner(scheduler: Any) -> Any:
    """The target's model runner."""
    for path in ("tp_worker.model_runner", "tp_worker.worker.model_runner"):
        runner = get(scheduler, path)
        if runner is not None:
            return runner
    raise AttributeError("the scheduler has no tp_worker.model_runner")


def draft_runners(worker: Any) -> list[tuple[str, Any]]:
    """Role and model runner of every draft; [] where the draft has no weights (n-gram)."""
    listing = getattr(worker, "weight_update_runners", None)
    if callable(listing):
        return [(str(role), runner) for role, runner in listing()]
    inner = getattr(worker, "draft_worker", None)
    for holder in (inner, worker):
        for name in ("draft_runner_list", "draft_runners"):
            many = get(holder, name)
            if many:
                roles = [f"draft_step_{n}" for n in range(len(many))]
                return [(roles[n] if len(many) > 1 else "draft", r) for n, r in enumerate(many)]
        for name in ("draft_runner", "draft_model_runner", "model_runner"):
            one = get(holder, name)
            if one is not None and one is not get(worker, "target_worker.model_runner"):
                return [("draft", one)]
    return []


def draft_facts(run: Run, part: str, target: Any, worker: Any, pair: Any) -> dict[str, Any]:
    """One draft: its model, its graphs and attention, and its head against the target's."""
    role, runner = pair
    facts = {"role": role, **model_facts(run, part, runner)}
    inner = getattr(worker, "draft_worker", None) or worker
    graphs = facts["graphs"]
    shared = run.part(f"{part}.graphs", graph_facts, get(inner, "cuda_graph_runner"))
    graphs["decode"] = shared or graphs["decode"]
    extend = get(inner, "cuda_graph_runner_for_draft_extend")
    graphs["extend"] = run.part(f"{part}.graphs", graph_facts, extend)
    facts["draft_attention"] = {
        "decode": _name(get(inner, "draft_attn_backend")),
        "extend": _name(get(inner, "draft_extend_attn_backend")),
    }
    sharing = run.part(f"{part}.sharing", sharing_facts, run, target.model, runner.model)
    facts["sharing_with_target"] = sharing
    return facts


def rank_facts(scheduler: Any) -> dict[str, int | None]:
    """Ranks and sizes, from where this version of the engine keeps them."""
    try:
        current = import_module("sglang.srt.runtime_context").get_parallel()
    except Exception:
        current = None
    holders = [get(scheduler, "ps"), current, scheduler, get(scheduler, "server_args")]
    facts: dict[str, int | None] = {}
    for name in (*_RANKS, *_SIZES):
        values = (_integer(get(holder, name)) for holder in holders if holder is not None)
        facts[name] = next((value for value in values if value is not None), None)
    return facts


def start_facts(scheduler: Any) -> dict[str, Any]:
    """Which start this is: its seed is drawn once, and is that of every rank on every host."""
    spaces, args = "/proc/self/ns/pid", get(scheduler, "server_args")
    space = os.readlink(spaces) if os.path.islink(spaces) else ""
    seed = get(scheduler, "tp_worker.random_seed", get(scheduler, "random_seed"))
    return {
        "random_seed": _integer(seed),
        "port": _integer(getattr(args, "port", None)),
        # Where a process number is of one process; the host's own name is nobody's business.
        "host": sha256(f"{os.uname().nodename} {space}".encode()).hexdigest()[:12],
        "model_path": os.path.basename(str(getattr(args, "model_path", "")).rstrip("/")),
    }


def version_facts() -> dict[str, Any]:
    """Versions of the engine, torch, Python and this probe."""
    engine = getattr(sys.modules.get("sglang"), "__version__", None)
    if engine is None:
        engine = version("sglang")
    torch = sys.modules.get("torch")
    return {
        "engine": _text(engine),
        "torch": _text(getattr(torch, "__version__", None)),
        "cuda": _text(get(torch, "version.cuda")),
        "python": ".".join(map(str, sys.version_info[:3])),
        "probe": PROBE,
    }


def device_facts(scheduler: Any) -> dict[str, Any]:
    """The device of this rank."""
    kind = str(getattr(scheduler, "device", "") or "")
    facts: dict[str, Any] = {"type": kind or None}
    cuda = get(sys.modules.get("torch"), "cuda")
    if kind.startswith("cuda") and cuda is not None and cuda.is_initialized():
        facts["name"] = cuda.get_device_name()
        facts["capability"] = list(cuda.get_device_capability())
        facts["allocated_bytes"] = cuda.memory_allocated()
    return facts


def _shown(name: str, value: str, is_secret: bool = False) -> str:
    if is_secret or _SECRET.fullmatch(name):
        return "(redacted)"
    return _IN_ADDRESS.sub("://(redacted)@", value)[:300]


def environment_facts() -> dict[str, Any]:
    """Variables of the engine that are set: declared in its registry, read elsewhere, neither."""
    module = import_module("sglang.srt.environ")
    registry = vars(module.Envs)
    outdated = getattr(module, "_DEPRECATED_ENVS", {})
    kinds = ("registered", "read_elsewhere", "unregistered", "renamed", "simulated_acceptance")
    facts: dict[str, Any] = {kind: {} for kind in kinds}
    for name, value in sorted(os.environ.items()):
        ours = name.startswith(("SGLANG_", "SGL_"))
        if name.startswith("_") or not (ours or name in registry):
            continue
        if name.startswith("SGL_SIMULATE_ACC"):
            facts["simulated_acceptance"][name] = _shown(name, value)
        if name in outdated:
            facts["renamed"][name] = _text(getattr(outdated[name], "replacement", None))
        elif name.startswith("SGL_"):
            # The engine gives the variable its present name and prefix itself.
            facts["renamed"][name] = f"SGLANG_{name[4:]}"
        else:
            shown = _shown(name, value, bool(getattr(registry.get(name), "secret", False)))
            kind = "read_elsewhere" if name in _READ_ELSEWHERE else "unregistered"
            facts["registered" if name in registry else kind][name] = shown
            if name.startswith("SGLANG_SIMULATE_ACC"):
                facts["simulated_acceptance"][name] = shown
    return facts


def hook_facts() -> dict[str, Any]:
    """Hooks of ours that the engine applied, and those that it did not."""
    registry = sys.modules.get("sglang.srt.plugins.hook_registry")
    patched = get(registry, "HookRegistry._patched")
    names = list(_hooks["registered"])
    missing = dict(_hooks["missing"])
    if isinstance(patched, set):
        missing.update({name: "not applied" for name in names if name not in patched})
    return {"applied": [name for name in names if name not in missing], "missing": missing}


def _opening(run: Run, scheduler: Any, stage: str) -> dict[str, Any]:
    """Which rank of which start speaks: a report has it even when nothing else can be told."""
    return {
        "schema": SCHEMA,
        "stage": stage,
        "process": {"pid": os.getpid(), "time": round(time.time(), 3)},
        "start": run.part("start", start_facts, scheduler),
        "rank": run.part("rank", rank_facts, scheduler),
    }


def build(scheduler: Any, stage: str) -> dict[str, Any]:
    """The report of this rank; a part that fails holds its error, and the others stay."""
    run = Run(stage)
    report: dict[str, Any] = {
        **_opening(run, scheduler, stage),
        "versions": run.part("versions", version_facts),
        "device": run.part("device", device_facts, scheduler),
        "target": None,
        "drafts": [],
    }
    worker = getattr(scheduler, "draft_worker", None)
    report["draft_worker"] = _name(worker)
    runner = run.part("target", target_runner, scheduler)
    if not isinstance(runner, dict):
        report["target"] = run.part("target", model_facts, run, "target", runner)
        report["speculative_algorithm"] = _text(get(runner, "spec_algorithm.name"))
        pairs = run.part("drafts", draft_runners, worker) if worker is not None else []
        for index, pair in enumerate(pairs if isinstance(pairs, list) else []):
            name = f"drafts.{index}"
            report["drafts"].append(run.part(name, draft_facts, run, name, runner, worker, pair))
    if stage != "ready":
        # No graph is captured yet: silence about graphs must not read as their absence.
        for facts in (report["target"] or {}, *report["drafts"]):
            facts.pop("graphs", None)
    report["environment"] = run.part("environment", environment_facts)
    report["hooks"] = run.part("hooks", hook_facts)
    report["errors"] = run.errors
    report["build_ms"] = round((time.perf_counter() - run.start) * 1e3, 2)
    # Only what JSON can hold leaves: the report also travels to the engine's HTTP server.
    return dict(json.loads(json.dumps(report, default=str)))


def required() -> bool:
    """Whether the engine must stop if no report can be made."""
    return os.environ.get("CONFIGURATOR_PROBE_REQUIRED") == "1"


def write(name: str, data: dict[str, Any]) -> None:
    """Write one file of the report directory at once or not at all; nothing without one."""
    directory = os.environ.get("CONFIGURATOR_PROBE_DIR")
    if not directory:
        return
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name)
    fresh = f"{path}.{os.getpid()}.tmp"
    if os.path.lexists(fresh):
        os.unlink(fresh)  # of an earlier process of this id, or a link that somebody left
    with open(fresh, "x", encoding="utf-8") as file:  # never through a link
        json.dump(data, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def file_name(report: dict[str, Any]) -> str:
    """The report's file; ranks that are not known keep apart by their process."""
    rank = report.get("rank")
    places = [rank.get(name) if isinstance(rank, dict) else None for name in _RANKS]
    if places[0] is None:
        return f"report-pid{os.getpid()}.json"
    return "report-tp{}-pp{}-dp{}.json".format(*(place or 0 for place in places))


def make(scheduler: Any, stage: str) -> dict[str, Any]:
    """Build and write the report; what went wrong is in it, and raised if that is required."""
    failure: Exception | None = None
    try:
        report = build(scheduler, stage)
    except Exception as error:
        failure = error
        text = f"{type(error).__name__}: {error}"
        run = Run(stage)
        report = _opening(run, scheduler, stage)
        report["errors"] = [{"part": "all", "error": text}, *run.errors]
    try:
        write(file_name(report), report)
    except Exception as error:
        failure = failure or error
        sys.stderr.write(f"configurator_probe: the report cannot be written: {error!r}\n")
    if failure is not None and required() and stage == "ready":
        raise RuntimeError(f"configurator_probe: no report: {failure!r}") from failure
    return report


def _store() -> Any:
    """The store over which the ranks of this engine found each other; None: it has one rank."""
    group = get(sys.modules.get("torch"), "distributed")
    if group is None or not group.is_initialized() or group.get_world_size() < 2:
        return None
    return group.distributed_c10d._get_default_store()


def publish(report: dict[str, Any]) -> None:
    """Leave the report where the first rank finds it, on whatever host; nothing waits for it."""
    try:
        store = _store()
        if store is not None:
            rank = sys.modules["torch"].distributed.get_rank()
            store.set(f"{KEY}/{rank}", json.dumps(report))
    except Exception as error:
        sys.stderr.write(f"configurator_probe: no other host gets this report: {error!r}\n")


def gather() -> list[dict[str, Any]]:
    """Reports that the other ranks have left by now; of the first rank alone."""
    store = _store()
    group = get(sys.modules.get("torch"), "distributed")
    if store is None or group.get_rank() != 0:
        return []
    for rank in range(1, group.get_world_size()):
        if rank not in _others and store.check([f"{KEY}/{rank}"]):
            _others[rank] = json.loads(store.get(f"{KEY}/{rank}"))
    return [_others[rank] for rank in sorted(_others)]


def after_loaded(result: Any, *args: Any, **kwargs: Any) -> Any:
    """All that is left of a start that dies of its first graph: weights loaded, heads shared."""
    make(args[0], "loaded")
    return result


def after_ready(result: Any, *args: Any, **kwargs: Any) -> Any:
    """Everything is built."""
    global _last
    _last = make(args[0], "ready")
    if isinstance(result, dict):
        result[KEY] = _last
    publish(_last)
    return result


def after_state(result: Any, *args: Any, **kwargs: Any) -> Any:
    """The engine answers /server_info: the only way over HTTP with several replicas."""
    state = getattr(result, "internal_state", None)
    if isinstance(state, dict) and _last is not None:
        state[KEY] = _last
        try:
            state[RANKS_KEY] = gather()
        except Exception as error:
            sys.stderr.write(f"configurator_probe: no report of other ranks: {error!r}\n")
    return result


def missing_reason(target: str) -> str | None:
    """Why a hook on `target` could not be applied; None when it can.

    A module that is not imported yet is searched as text: importing the scheduler here would
    import it before other plugins have run.
    """
    module, holder, method = target.rsplit(".", 2)
    loaded = sys.modules.get(module)
    if loaded is not None:
        known = callable(getattr(getattr(loaded, holder, None), method, None))
        return None if known else f"{module} has no {holder}.{method}"
    try:
        spec = find_spec(module)
    except Exception as error:
        return f"{module} cannot be found: {error}"
    if spec is None or not spec.origin:
        return f"there is no {module}"
    if not spec.origin.endswith(".py"):
        return None
    with open(spec.origin, encoding="utf-8") as file:
        text = file.read()
    lines = rf"^class {holder}\b", rf"^\s+(async )?def {method}\b"
    if all(re.search(line, text, re.MULTILINE) for line in lines):
        return None
    return f"the text of {module} has no {holder}.{method}"


_GROUPS = (((READY_HOOK,), after_ready), ((LOADED_HOOK,), after_loaded), (STATE_HOOKS, after_state))


def _register() -> None:
    if _DETOKENIZER in sys.modules and _SCHEDULER.rpartition(".")[0] not in sys.modules:
        return  # No scheduler runs here; a hook on it would import it, with all that it loads.
    module = import_module("sglang.srt.plugins.hook_registry")
    for targets, hook in _GROUPS:
        reasons = {target: missing_reason(target) for target in targets}
        target = next((name for name in targets if reasons[name] is None), None)
        if target is None:
            _hooks["missing"].update(reasons)
            continue
        module.HookRegistry.register(target, hook, module.HookType.AFTER)
        _hooks["registered"].append(target)


def register() -> None:
    """Entry point: register the hooks, and leave word of those that this engine lacks."""
    problem = None
    try:
        _register()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    problem = problem or _hooks["missing"].get(READY_HOOK)
    facts = {"schema": HOOKS_SCHEMA, "pid": os.getpid(), "probe": PROBE, **_hooks}
    try:
        write(f"hooks-{os.getpid()}.json", {**facts, "error": problem})
    except Exception as error:
        problem = problem or f"the report directory cannot be written: {error}"
    if problem is not None:
        sys.stderr.write(f"configurator_probe: {problem}\n")
        if required():
            # The engine swallows an Exception of a plugin and goes on without it.
            raise SystemExit(f"configurator_probe: no report can be made: {problem}")
