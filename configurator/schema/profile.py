"""The profile of a deployment: hardware, model, optimizations, workload, what must hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from configurator.schema.base import (
    ApiVersion,
    ArgName,
    Name,
    Scalar,
    StrictModel,
    Text,
)
from configurator.schema.named import (
    CheckpointPath,
    EngineVariable,
    Host,
    HostPath,
    Image,
    KeyFile,
    KeyVariable,
    Spelling,
)

OnRefuted = Literal["fail", "drop", "warn"]
OnUnproven = Literal["fail", "warn"]
Count = Annotated[int, Field(ge=1, le=100_000)]
Port = Annotated[int, Field(ge=1, le=65535)]
Overrides = dict[str, object]


class EngineRef(StrictModel):
    """Which engine runs: a build of the content directory, or a released version."""

    name: Literal["sglang"] = "sglang"
    """The engine."""
    build: Name | None = None
    """An entry of profiles/engines/, for instance `sglang-0.5.23`."""
    version: Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+.*$")] | None = None
    """A released version; the same as `build: sglang-VERSION`."""
    overrides: Overrides = {}
    """Values that replace those of the entry, for this deployment only."""

    @model_validator(mode="after")
    def _one_of(self) -> EngineRef:
        if (self.build is None) == (self.version is None):
            raise ValueError("give exactly one of 'build' and 'version'")
        return self


class HardwareRef(StrictModel):
    """The machine, and how many of its GPUs this deployment takes."""

    name: Name
    """An entry of profiles/hardware/."""
    gpus: Count
    """GPUs in total; hosts follow from the entry's `gpus_per_host`."""
    overrides: Overrides = {}
    """Values that replace those of the entry, for this deployment only."""


class ModelRef(StrictModel):
    """The model that is served."""

    name: Name
    """An entry of profiles/models/."""
    path: CheckpointPath | None = None
    """Where the checkpoint is on the serving host; default: the entry's repository name."""
    revision: CheckpointPath | None = None
    """A commit of the repository, so that the same bytes are served every time."""
    overrides: Overrides = {}
    """Values that replace those of the entry, for this deployment only."""


class Topology(StrictModel):
    """How the GPUs are divided: replicas times tensor times pipeline is their number."""

    replicas: Count = 1
    """Independent servers of the same model, each with its own port."""
    tensor: Count = 1
    """Tensor parallel size of one replica."""
    pipeline: Count = 1
    """Pipeline parallel size of one replica."""
    expert: Count = 1
    """Expert parallel size, inside the tensor parallel group."""
    data: Count = 1
    """Data parallel attention size, inside the tensor parallel group."""


class DraftRef(StrictModel):
    """The draft model of speculative decoding."""

    same_checkpoint: bool = False
    """The draft is part of the target's checkpoint (NEXTN, MTP)."""
    name: Name | None = None
    """An entry of profiles/models/ with `role: draft`."""
    path: CheckpointPath | None = None
    """Where the draft's checkpoint is; default: the entry's repository name."""

    @model_validator(mode="after")
    def _one_of(self) -> DraftRef:
        if self.same_checkpoint == (self.name is not None):
            raise ValueError("give exactly one of 'same_checkpoint: true' and 'name'")
        return self


class Acceptance(StrictModel):
    """What the draft must reach to be worth its cost."""

    floor: Annotated[float, Field(ge=1.0, le=64.0)] | None = None
    """Accepted tokens per verify step, bonus token included, below which it is refuted."""
    verify_cost_ratio: Annotated[float, Field(gt=0.0, le=64.0)] | None = None
    """Verify step over plain decode step, for this model and machine: the break-even."""


class Optimization(StrictModel):
    """One mechanism that must take effect; further keys are the options of its kernel entry."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    on_refuted: OnRefuted = "fail"
    """What happens when evidence contradicts it."""
    on_unproven: OnUnproven = "warn"
    """What happens when evidence is not enough."""
    provider: Literal["build", "plugin", "configurator"] | None = None
    """Who brings it: the engine build itself, a plugin package that is installed there, or the
    plugin of the kernel entry, which the launch brings along."""
    draft: DraftRef | None = None
    """The draft model, for speculative decoding."""
    acceptance: Acceptance | None = None
    """What the draft must reach, for speculative decoding."""
    overrides: Overrides = {}
    """Values that replace those of the kernel entry, for this deployment only."""

    @property
    def options(self) -> dict[str, object]:
        """The keys that the kernel entry declares."""
        return dict(self.__pydantic_extra__ or {})


class Sampling(StrictModel):
    """How tokens are sampled; acceptance and throughput depend on it."""

    temperature: Annotated[float, Field(ge=0.0, le=10.0)] | Annotated[int, Field(ge=0, le=10)] = 1.0
    """0 is greedy."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] | Annotated[int, Field(ge=1, le=1)] = 1.0
    """Nucleus sampling."""
    top_k: int = -1
    """-1 is off."""


class Workload(StrictModel):
    """What the deployment is for."""

    concurrency: Count = 1
    """Requests running at the same time, per replica."""
    context: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """Longest sequence in tokens, prompt and output."""
    input_tokens: Count | None = None
    """Typical prompt length."""
    output_tokens: Count | None = None
    """Typical output length."""
    sampling: Sampling = Sampling()
    """How tokens are sampled."""
    text: Text | None = None
    """What the requests are: the name of a data set or load, for instance `GSM8K`, as published
    figures name theirs; without it a plan leaves open whether they hold."""
    prompts: list[Text] = []
    """Texts of this workload for the self-check; acceptance depends on the text."""


class SecretRef(StrictModel):
    """Where a secret is kept; never the secret itself."""

    file: KeyFile | None = None
    """A file whose content is the secret."""
    env: KeyVariable | None = None
    """A variable of the launching environment that holds the secret."""

    @model_validator(mode="after")
    def _one_of(self) -> SecretRef:
        if (self.file is None) == (self.env is None):
            raise ValueError("give exactly one of 'file' and 'env'")
        return self


class Serving(StrictModel):
    """Where and how the server listens."""

    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: Port = 30000
    """Port of the first replica; the next on the same host takes the next port."""
    served_model_name: Text | None = None
    """The name clients use."""
    api_key: SecretRef | None = None
    """Key that clients must send."""
    admin_api_key: SecretRef | None = None
    """Key for administrative endpoints."""


class Router(StrictModel):
    """A process in front of the replicas."""

    kind: Literal["sglang"] = "sglang"
    """SGLang's own router."""
    policy: Literal["cache_aware", "round_robin", "random", "power_of_two"] = "cache_aware"
    """How a request chooses its replica."""
    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: Port = 30080
    """Port to listen on."""


class Memory(StrictModel):
    """Memory of the GPU, and of the host where they share it."""

    mem_fraction_static: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Share of GPU memory for weights and KV cache."""
    min_available_gib: Annotated[float, Field(gt=0)] | Annotated[int, Field(gt=0)] | None = None
    """Free memory the host must have before the launch (unified-memory machines)."""


class EvidenceSettings(StrictModel):
    """What may be added to the launch, and asked of the server, to make proof possible."""

    instrument: Literal["standard", "none"] = "standard"
    """`standard` adds what evidence needs (metrics, own environment); `none` adds nothing."""
    require_report: bool = False
    """A missing in-engine report makes mechanisms that need it unproven with `fail`."""
    level: Literal[1, 2, 3] = 1
    """1: at most three short requests; 2: enough for an interval; 3: also a trace."""


class Startup(StrictModel):
    """How long a start may take."""

    timeout_s: Annotated[int, Field(ge=1, le=86_400)] = 1200
    """Seconds until the server must be ready; first starts compile kernels."""


class Dynamo(StrictModel):
    """The image of the target dynamo; nothing in this project says which one has which engine."""

    image: Image
    """Image with SGLang and Dynamo."""
    version: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}$")]
    """Version of Dynamo in it, which the operator wants to know."""


class Container(StrictModel):
    """What the targets that run in containers need."""

    image: Image | None = None
    """Image of the engine, best by digest; default: the one of the engine entry."""
    checker: Image | None = None
    """Image with configurator, which judges; default: serving-configurator:VERSION."""
    cache: HostPath | None = None
    """Folder of the host for compiled kernels and downloads, mounted as the cache of the
    container's user; without it every start compiles anew."""
    shared_memory_gib: Count = 32
    """Size of /dev/shm, over which the ranks of one host exchange data."""
    dynamo: Dynamo | None = None
    """What the target dynamo runs instead of `image`."""


class Deviation(StrictModel):
    """One place where this profile differs from the recipe it follows, and why."""

    published: Text
    """What the recipe says."""
    here: Text
    """What this profile says."""
    reason: Text
    """Why."""


class Extra(StrictModel):
    """The escape hatch: arguments and variables passed through, validated all the same."""

    args: dict[ArgName, Scalar | list[Scalar]] = {}
    """Engine arguments without the leading dashes; `true` is a bare flag."""
    env: dict[EngineVariable, Scalar] = {}
    """Environment of the engine's process."""
    secrets: dict[KeyVariable, SecretRef] = {}
    """Environment of the engine's process that is kept elsewhere, for instance
    `HF_TOKEN: {env: HF_TOKEN}`; never the value itself."""
    order: list[Spelling] = []
    """Arguments in the order and spelling of the command line, for instance `tp`, `port=`,
    `mem-fraction-static 0.80`; what an import writes, so that the same words come back."""

    @model_validator(mode="after")
    def _given_once(self) -> Extra:
        both = sorted(self.env.keys() & self.secrets.keys())
        if both:
            raise ValueError(f"give {', '.join(both)} once, in 'env' or in 'secrets'")
        return self


class Profile(StrictModel):
    """One deployment."""

    api_version: ApiVersion = Field(alias="apiVersion")
    """Version of this format."""
    kind: Literal["Deployment"]
    """What this file describes."""
    name: Name
    """Name of the deployment."""
    extends: Text | None = None
    """A profile to build on: a name, or a path relative to this file."""
    description: str = ""
    """One paragraph for the reader."""
    status: Literal["verified", "unverified"] | None = None
    """`unverified`: a composition that nobody has yet run as a whole."""
    engine: EngineRef
    """Which engine runs."""
    hardware: HardwareRef
    """The machine."""
    model: ModelRef
    """The model."""
    topology: Topology = Topology()
    """How the GPUs are divided."""
    optimizations: dict[str, Optimization] = {}
    """Mechanisms that must take effect, by kernel name."""
    workload: Workload = Workload()
    """What the deployment is for."""
    serving: Serving = Serving()
    """Where and how the server listens."""
    router: Router | None = None
    """A process in front of the replicas."""
    memory: Memory = Memory()
    """Memory."""
    evidence: EvidenceSettings = EvidenceSettings()
    """What may be asked of the server to prove its state."""
    startup: Startup = Startup()
    """How long a start may take."""
    container: Container = Container()
    """What the targets that run in containers need."""
    claims: list[Text] = []
    """Published figures this deployment refers to, by id: of its model or mechanisms."""
    deviations: list[Deviation] = []
    """Where this profile differs from the recipe it follows."""
    extra: Extra = Extra()
    """Arguments and variables passed through."""
