"""Evidence as data: one `Replica` per server, read from an evidence directory.

Everything here is plain and complete: a probe needs nothing else, and a test builds a `Replica`
from a few literals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

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
    kind: Literal["profile", "easy", "warm-up", "unknown"] = "unknown"
    """What text was asked for; acceptance depends on it."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the server's log."""

    number: int
    text: str


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


@dataclass(frozen=True, slots=True)
class MoeLayer:
    """What one MoE layer was built as."""

    name: str
    quant_method: str
    runner: str
    """Resolved runner of the object that was built, in lower case (`triton`, `humming`)."""
    runner_core: str = ""
    weight_dtype: str = ""


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
    raw: Json = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel name of a trace and how often and how long it ran."""

    name: str
    count: int
    mean_us: float


@dataclass(frozen=True, slots=True)
class TraceStep:
    """Steps of one kind (DECODE, TARGET_VERIFY, draft, ...) in a trace."""

    kind: str
    steps: int
    launches: float
    """Launch calls a step, a graph launch counted as one."""
    graph_launches: float
    kernels: float
    """Kernels executed a step."""
    last_gemm: str = ""
    """Name of the last GEMM kernel of the steps: the LM head."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A profiler trace, summarized."""

    file: str
    kernels: tuple[Kernel, ...]
    steps: tuple[TraceStep, ...] = ()


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

    @property
    def version(self) -> str | None:
        """The engine's version as /server_info says."""
        info = self.server_info or self.server_info_startup or {}
        version = info.get("version")
        return version if isinstance(version, str) else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was observed of one deployment."""

    directory: str
    replicas: tuple[Replica, ...]
    manifest: dict[str, Any] = field(default_factory=dict)
