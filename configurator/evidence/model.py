"""Evidence as data: one `Replica` per server, read from an evidence directory.

Everything here is plain and complete: a probe needs nothing else, and a test builds a `Replica`
from a few literals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from configurator.collector.logline import READY, taken_apart
from configurator.evidence.host import Host
from configurator.evidence.trace_model import Trace

Json = Any


@dataclass(frozen=True, slots=True)
class ServerState:
    """Whether the server can be judged at all."""

    state: Literal["ready", "starting", "failed", "unreachable"]
    phase: str = ""
    """What it was doing: loading weights, capturing CUDA graphs, FlashInfer autotune, ..."""
    reason: str = ""
    """Why, with the last error lines."""
    remedy: str = ""
    locator: str = ""


Kind = Literal["profile", "easy", "known-answer", "reference", "warm-up", "unknown"]
"""The profile's workload; plain prose; a text with one right continuation; a greedy request to be
held against another run; a warm-up."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response."""

    name: str
    """File it is kept in."""
    path: str
    """Endpoint, for instance /generate."""
    status: int
    request: Json
    """None when only the response was recorded."""
    response: Json
    kind: Kind = "unknown"
    """What text was asked for; acceptance depends on it."""
    together: int | None = None
    """How many requests were sent at the same time, this one among them; None: not known."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the server's log.

    Facts are read from the beginning of `message`, never from somewhere in `text`, which may hold
    what a person sent.
    """

    number: int
    text: str
    start: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Of the line with the arguments of a start: those that tell it from another start."""
    message: str = field(init=False, repr=False, compare=False)
    """What follows the engine's prefix; empty: the line is the rest of another, or not known."""
    ranks: dict[str, int] = field(init=False, repr=False, compare=False)
    """Ranks that the prefix names: dp, pp, tp, ep."""

    def __post_init__(self) -> None:
        """Take the line apart, once."""
        message, ranks = taken_apart(self.text)
        object.__setattr__(self, "message", message)
        object.__setattr__(self, "ranks", ranks)


@dataclass(frozen=True, slots=True)
class Sample:
    """One Prometheus sample."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Head:
    """An LM head as the in-engine report describes it."""

    dtype: str | None
    """dtype of the weight, for instance float8_e4m3fn."""
    shape: tuple[int, ...] = ()
    nbytes: int | None = None
    module: str = ""
    quant_method: str = ""
    quant_method_applied: bool | None = None
    scales: dict[str, str | None] = field(default_factory=dict)
    """Scale tensors by name; the value where the report has it."""
    use_fp32: bool = False
    path_taken: str = ""
    path: str = ""
    """Where the head lies in its model, for instance lm_head."""
    tied: bool = False
    """The head is the embedding of its own model."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a draft's head relates to the target's."""

    same_module: bool | None = None
    same_weight: bool | None = None
    """Same parameter or storage."""
    same_content: bool | None = None
    same_scales: bool | None = None
    """Every scale of the target's head is the draft's too; None: not reported or no scale."""
    scale_values: tuple[str, ...] = ()
    compared: str = ""
    """How much was compared where the weight is not the same: all, or a sample of so many rows."""
    conflict: str = ""
    """What the report says that cannot be true together; nothing else of it counts then."""

    @property
    def kind(self) -> Literal["module", "tensors", "weight", "copy", "other", "unknown"]:
        """What is shared: the module, weight and scales, the weight alone, the content, nothing."""
        if self.same_module:
            return "module"
        if self.same_weight:
            return "weight" if self.same_scales is False else "tensors"
        if self.same_weight is None:
            return "unknown"
        return "copy" if self.same_content else "other"


@dataclass(frozen=True, slots=True)
class MoeLayer:
    """What one MoE layer was built as."""

    name: str
    quant_method: str
    runner: str
    """Resolved runner of the object that was built, in lower case (`triton`, `humming`)."""
    runner_core: str = ""
    weight_dtype: str = ""
    layer_class: str = ""
    resolved: str = ""
    """What the layer itself says of its runner, in lower case; the object may be another."""
    has_runner: bool | None = None
    """Whether a runner object was built; without one `runner` is only what the layer says."""
    fused_func: str = ""
    activations: str = ""
    """Numbers of its input (`bf16`, `fp8`); empty: the layer does not tell."""


@dataclass(frozen=True, slots=True)
class Graphs:
    """Decode graphs that one runner captured."""

    runner_class: str
    wanted: tuple[int, ...]
    """Batch sizes that the runner was to capture."""
    captured: tuple[int, ...] | None = None
    """Sizes in the runner's own table; None: it shows none. With ragged verification tokens."""


@dataclass(frozen=True, slots=True)
class Megakernel:
    """The megakernel that was built for one model."""

    built_class: str
    widths: tuple[int, ...] = ()
    summary: str = ""
    forward_installed: bool | None = None
    draft_sampler: bool | None = None
    graphs: tuple[int, ...] | None = None
    """Batch sizes of the captured decode graphs; None: not reported."""
    covered: tuple[int, ...] | None = None
    """Those of them that run the megakernel."""
    capture_checked: bool | None = None
    """Whether the engine has looked at all of its graphs; None: not reported, or it never does."""


@dataclass(frozen=True, slots=True)
class ModelReport:
    """One model (target or draft) as the in-engine report describes it."""

    model_class: str
    is_draft: bool
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    decode_attention: str | None = None
    prefill_attention: str | None = None
    moe_layers: tuple[MoeLayer, ...] = ()
    linear_methods: dict[str, int] = field(default_factory=dict)
    """`Class:QuantMethod` and how many layers are so."""
    head: Head | None = None
    sharing: Sharing | None = None
    """Drafts only."""
    graph_batch_sizes: tuple[int, ...] | None = None
    """Sizes captured for decoding; (): a report that lists graphs has none. None: not reported."""
    role: str = ""
    """Drafts only: draft, or draft_step_0 and so on."""
    path: str = ""
    """Last part of the checkpoint's path."""
    dtype: str | None = None
    kv_pool_dtype: str | None = None
    """dtype that the KV pool was allocated with."""
    attention_class: str | None = None
    """Class of the attention backend, which may wrap others."""
    decode_attention_class: str | None = None
    """Class of the backend inside it that decode or verify steps run on."""
    draft_attention: dict[str, str] = field(default_factory=dict)
    """Drafts only: class of the backend of the draft's decode and extend steps."""
    graphs: dict[str, Graphs] = field(default_factory=dict)
    """By step: decode, and extend of a draft."""
    megakernel: Megakernel | None = None
    weight_bytes: dict[str, int] = field(default_factory=dict)
    """By component on this rank: embedding, head, experts, other; counted_before is shared."""


@dataclass(frozen=True, slots=True)
class Report:
    """The in-engine report of one rank."""

    file: str
    rank: int | None
    """Tensor parallel rank; None in early reports that did not know it."""
    stage: str
    target: ModelReport | None
    drafts: tuple[ModelReport, ...] = ()
    env_undeclared: tuple[str, ...] = ()
    """SGLANG_* variables set and not in the engine's registry, as the report says."""
    simulated_acceptance: dict[str, str] = field(default_factory=dict)
    knows_simulation: bool = False
    """The report has the part on simulated acceptance, and it is whole."""
    knows_undeclared: bool = False
    """The same of the undeclared variables."""
    raw: Json = None
    schema: str = ""
    """Schema of the report; empty for those before configurator/report/1."""
    versions: dict[str, str] = field(default_factory=dict)
    """engine, torch, cuda, python, probe."""
    ranks: dict[str, int] = field(default_factory=dict)
    """tp_rank, pp_rank, dp_rank, tp_size, pp_size, dp_size, ep_size, as far as known."""
    device: dict[str, str] = field(default_factory=dict)
    """type, name."""
    env_declared: dict[str, str] = field(default_factory=dict)
    """Variables set and declared in the engine's registry, redacted."""
    env_renamed: dict[str, str] = field(default_factory=dict)
    """Variables set under an old name, and the new name (empty: none)."""
    hooks_applied: tuple[str, ...] = ()
    hooks_missing: dict[str, str] = field(default_factory=dict)
    """Hooks of the probe that this engine did not apply, and why."""
    errors: dict[str, str] = field(default_factory=dict)
    """Parts of the report that failed, and why; they are missing evidence."""
    build_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Hooks:
    """What one process of the engine says of the probe's hooks, report or not."""

    file: str
    process: int | None
    registered: tuple[str, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    error: str = ""
    """Why no report can be made; empty: one can."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What another run answered, for instance one without the mechanism."""

    directory: str
    exchanges: tuple[Exchange, ...]
    model: str = ""
    """Last part of the path of its model; empty: not known."""
    alike: str = ""
    """Why it is no other run, but the same server or one that was launched alike."""
    expert_parallel: bool = False
    """Its experts are spread over ranks, as /server_info says."""


@dataclass(frozen=True, slots=True)
class Replica:
    """All that was observed of one server."""

    index: int
    state: ServerState
    command: str = ""
    """The launch command, redacted, where it is known."""
    requested: dict[str, Any] = field(default_factory=dict)
    """Arguments asked for, by their name in /server_info (underscores)."""
    environment: dict[str, str] | None = None
    """Environment of the engine's process, redacted; None: not known."""
    server_info: dict[str, Any] | None = None
    server_info_startup: dict[str, Any] | None = None
    model_info: dict[str, Any] | None = None
    loads: dict[str, Any] | None = None
    metrics: tuple[Sample, ...] | None = None
    metrics_startup: tuple[Sample, ...] | None = None
    log: tuple[LogLine, ...] | None = None
    exchanges: tuple[Exchange, ...] = ()
    reports: tuple[Report, ...] = ()
    traces: tuple[Trace, ...] = ()
    hooks: tuple[Hooks, ...] = ()
    """What the engine's processes say of the probe's hooks; (): none says anything."""
    set_aside: tuple[str, ...] = ()
    """Reports that do not count, each with the reason: of another start, model or engine."""
    host: Host | None = None
    """The machine it runs on; None: not looked at from there."""
    reference: Reference | None = None
    """Another run to hold this one against; None: none was given."""

    @property
    def version(self) -> str | None:
        """The engine's version as /server_info says."""
        info = self.server_info or self.server_info_startup or {}
        version = info.get("version")
        return version if isinstance(version, str) else None

    def said(
        self, shape: re.Pattern[str], *, while_starting: bool = False
    ) -> Iterator[tuple[LogLine, re.Match[str]]]:
        """The lines of the log whose message begins as `shape` says.

        Args:
            shape: matched at the beginning of the message.
            while_starting: only lines before the server was ready, where that is logged: what was
                built was built then, and nobody had sent anything yet.
        """
        for line in self.log or ():
            if while_starting and line.message.startswith(READY):
                return
            found = shape.match(line.message)
            if found is not None:
                yield line, found


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was observed of one deployment."""

    directory: str
    replicas: tuple[Replica, ...]
    manifest: dict[str, Any] = field(default_factory=dict)
