"""The entries of the content directories: hardware, models, engines, kernels and families."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from configurator.schema.base import (
    ApiVersion,
    ArgName,
    EnvName,
    Known,
    Name,
    Scalar,
    StrictModel,
    Text,
)
from configurator.schema.drafting import Drafting
from configurator.schema.kernel_names import Family, PerStep
from configurator.schema.selftests import SelfTest
from configurator.schema.shapes import (
    Attention,
    Latent,
    LinearState,
    Moe,
    Positive,
    PositiveInt,
    Quantization,
)

Arch = Annotated[str, Field(pattern=r"^(sm_[0-9]+|cpu)$")]
Rung = Literal["requested", "resolved", "built", "captured", "executed", "effective"]


class Entry(StrictModel):
    """What every entry has."""

    api_version: ApiVersion = Field(alias="apiVersion")
    """Version of this format."""
    name: Name
    """Name of the entry; the same as its file."""
    summary: Text
    """One line for lists."""
    notes: list[Text] = []
    """Facts for the reader."""
    sources: list[Text] = []
    """Where the facts come from."""
    unknown: list[Text] = []
    """What is not public; a name here gives a warning, never an error."""


class MultiHost(StrictModel):
    """What one instance over several of these hosts needs."""

    env: dict[EnvName, str] = {}
    """Environment of every rank."""
    requires: list[Text] = []
    """What must be set up on the hosts, for preflight and people."""
    devices: list[Text] = []
    """Devices that a container must be given, for instance /dev/infiniband."""
    imex: bool = False
    """The GPUs of several hosts share memory through an IMEX channel, which a container must be
    given."""


class Hardware(Entry):
    """A machine: one host of it, and what its GPUs are."""

    kind: Literal["Hardware"]
    """What this file describes."""
    product: Text | None
    """The GPU's product name as nvidia-smi prints it; null on machines without one."""
    arch: Arch | None = None
    """GPU architecture, for instance sm_103; null: not said."""
    gpus_per_host: PositiveInt
    """GPUs that one operating system sees."""
    sms: PositiveInt | None = None
    """Streaming multiprocessors per GPU."""
    memory_gb: Positive | None = None
    """Memory per GPU in GB (10^9 bytes); on unified memory what host and GPU share; null: not
    said."""
    usable_gib: Positive | None = None
    """What is left of it in GiB after the system's own share; what the engine can see where that
    was read from a machine."""
    bandwidth_gb_s: Positive | None = None
    """Memory bandwidth per GPU in GB/s."""
    tflops: dict[Literal["bf16", "fp8", "mxfp4", "nvfp4", "int4"], Positive] = {}
    """Dense matrix throughput per GPU in 10^12 operations a second, by the dtype of the operands;
    empty: not known, and plans then consider memory bandwidth alone."""
    unified_memory: bool = False
    """Host and GPU share one memory."""
    nvlink_domain_gpus: PositiveInt = 1
    """GPUs that reach each other over NVLink, across hosts too."""
    cpu_arch: Literal["aarch64", "x86_64", "any"] = "any"
    """Architecture of the host's CPU."""
    multi_host: MultiHost | None = None
    """What one instance over several hosts needs; null: not supported by this entry."""
    args: dict[ArgName, Scalar] = {}
    """Engine arguments that this machine needs whatever the model."""
    aisimulate: Text | None = None
    """What aisimulate calls it; null: it has no data of this machine."""


class DraftFacts(StrictModel):
    """What a draft checkpoint is made for."""

    targets: list[Name]
    """Model entries it drafts for."""
    algorithm: Literal["NEXTN", "EAGLE", "EAGLE3", "DFLASH", "DSPARK", "STANDALONE"]
    """The speculative algorithm it is trained for."""
    verify_width: PositiveInt | None = None
    """Tokens in one verify step: the current one and the drafted."""


class Parsers(StrictModel):
    """Parser names of the engine that fit the model's output."""

    reasoning: Text | None = None
    """Value of --reasoning-parser."""
    tool_call: Text | None = None
    """Value of --tool-call-parser."""


class Model(Entry):
    """A checkpoint."""

    kind: Literal["Model"]
    """What this file describes."""
    repository: Text
    """Name of the repository it is published in."""
    architecture: Text
    """The class in its config.json."""
    role: Literal["target", "draft"] = "target"
    """Served, or a draft of another."""
    parameters_b: Positive | None = None
    """Parameters in billions; null where it is not public."""
    active_b: Positive | None = None
    """Parameters that one token activates, in billions."""
    layers: PositiveInt | None = None
    """Decoder layers; null where it is not public."""
    hidden_size: PositiveInt | None = None
    """Width of the residual stream."""
    vocab_size: PositiveInt | None = None
    """Rows of the LM head."""
    heads: PositiveInt | None = None
    """Query heads."""
    kv_heads: PositiveInt | None = None
    """Key and value heads."""
    head_dim: PositiveInt | None = None
    """Width of a head."""
    v_head_dim: PositiveInt | None = None
    """Width of a value head where it is not that of a key head."""
    attention: list[Attention] = []
    """Layers by kind."""
    latent: Latent | None = None
    """Shape of layers of kind mla."""
    linear: LinearState | None = None
    """Shape of layers of kind linear or mamba."""
    attention_gate: Literal["none", "heads", "full"] = "none"
    """Gate on the output of softmax attention: none, one number a head, or as wide as the
    queries."""
    intermediate_size: PositiveInt | None = None
    """Width of the dense MLP."""
    moe: Moe | None = None
    """Mixture of experts; null: dense."""
    quantization: Quantization = Quantization()
    """Storage of the tensors."""
    weights_gb: Positive | None = None
    """Size of the checkpoint in GB (10^9 bytes)."""
    context: PositiveInt | None = None
    """Longest sequence without any override, in tokens; null: not said."""
    nextn_layers: Annotated[int, Field(ge=0)] = 0
    """Next-token-prediction layers inside the checkpoint."""
    towers_b: Positive | None = None
    """Parameters of vision and audio towers in billions; null: none, or not public."""
    tied_embeddings: bool = False
    """LM head and embedding are one tensor."""
    lm_head_from_target: bool = False
    """Drafts only: embedding and LM head are the target's."""
    draft: DraftFacts | None = None
    """Drafts only: what it is made for."""
    parsers: Parsers = Parsers()
    """Parsers that fit the output."""
    args: dict[ArgName, Scalar] = {}
    """Engine arguments the model needs on every machine."""

    @property
    def described(self) -> bool:
        """Something is said of its shapes; of others no rule can say what they lack."""
        return self.layers is not None or self.hidden_size is not None


class EngineBase(StrictModel):
    """Where a build branched off."""

    release: Text | None = None
    """The release it is, or is based on."""
    commit: Text | None = None
    """The commit it is based on."""


class Changes(StrictModel):
    """Names that a build has, or lacks, against its base."""

    env: list[Text] = []
    """Environment variables."""
    args: list[Text] = []
    """Arguments, without the leading dashes."""


class Sharing(StrictModel):
    """How the draft gets the target's LM head in this build."""

    module: list[Text] = []
    """Target architectures whose draft takes the whole module."""
    weight: list[Text] = []
    """Target architectures whose draft takes only the weight tensor."""
    unknown: list[Text] = []
    """Target architectures for which it is not public."""


class ByHand(StrictModel):
    """A change that people make in the engine's environment before the first start."""

    fact: Text
    """Ability of the engine build; where the build has it, nothing has to be changed."""
    arch: list[Arch] = []
    """GPU architectures it is about; empty: all."""
    architectures: list[Text] = []
    """Model classes it is about; empty: all."""
    why: Text
    """What happens without it."""
    change: Text
    """What to change, as an order."""


class Engine(Entry):
    """A build of the engine."""

    kind: Literal["Engine"]
    """What this file describes."""
    engine: Literal["sglang"]
    """The engine."""
    version: Text
    """What /server_info reports; of a development build not ordered as a release."""
    released: bool
    """A release from the package index."""
    base: EngineBase = EngineBase()
    """Where it branched off."""
    image: Text | None = None
    """Container image, by digest where one is public."""
    adds: Changes = Changes()
    """Names this build has beyond its base."""
    removes: Changes = Changes()
    """Names its base has and this build lacks."""
    facts: dict[Text, Known] = {}
    """Abilities by the name that kernel entries ask for them."""
    by_hand: list[ByHand] = []
    """What is changed in it by hand before it starts."""
    lm_head_sharing: Sharing = Sharing()
    """How drafts get the LM head."""
    sliding_pools: list[Text] | None = None
    """Architectures whose sliding layers have a smaller pool of their own; those of all others
    keep every token, as full layers do. Null: not known."""
    packages: dict[Text, Text] = {}
    """Packages that come with it, and their versions."""


class Option(StrictModel):
    """A key that a profile may write under this mechanism."""

    type: Literal["int", "float", "bool", "str", "int_list"]
    """Type of the value."""
    default: Scalar | list[int] | None = None
    """Value when it is not written."""
    choices: list[Scalar] = []
    """The values allowed; empty: any of the type."""
    min: float | int | None = None
    """Smallest number allowed."""
    max: float | int | None = None
    """Largest number allowed."""
    description: Text
    """For editors and references."""


class From(StrictModel):
    """A value taken from the profile."""

    option: Text | None = None
    """An option of this mechanism."""
    draft: Literal["path"] | None = None
    """A fact of the draft model."""


PackageName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)+$")]
"""A Python package with an underscore in its name, so that it shadows none that is well known."""


class Plugin(StrictModel):
    """A package beside the entry, in `plugins/`, that launches bring along for the engine to load
    where a profile says `provider: configurator`."""

    package: PackageName
    """The folder in `kernels/plugins/`, and the name of the entry point."""
    releases: list[Text]
    """Releases of the engine that it was written for."""
    provides: list[Text] = []
    """Abilities, as `needs.facts` has them, that the engine build need not have then."""
    env: dict[EnvName, Scalar | From] = {}
    """Environment it is given, in the place of the entry's `env`."""


class Needs(StrictModel):
    """What must be there for the mechanism; an empty list asks for nothing."""

    arch: list[Arch] = []
    """GPU architectures it runs on."""
    experts: list[Literal["bf16", "fp8", "mxfp4", "nvfp4", "int4"]] = []
    """Storage of the routed experts it reads."""
    lm_head: list[Literal["bf16", "fp8", "fp32"]] = []
    """Storage of the LM head in the checkpoint it starts from."""
    nextn_layers: bool = False
    """The checkpoint must carry next-token-prediction layers."""
    facts: list[Text] = []
    """Abilities of the engine build."""
    packages: list[Text] = []
    """Packages in the engine's environment."""
    plugins: list[Text] = []
    """Entry points in the engine's environment, in the group that the engine loads plugins from."""
    with_any: list[Name] = []
    """At least one of these mechanisms must be on too."""


class ServedAs(StrictModel):
    """What a mechanism makes of a part of the model while it serves."""

    lm_head: Literal["fp8"] | None = None
    """What the LM head is stored as, whatever the checkpoint has."""


class Coverage(StrictModel):
    """A row of a published support table."""

    architecture: Text
    """Model class."""
    products: list[Text]
    """GPU product names."""
    tensor: list[PositiveInt]
    """Tensor parallel sizes."""
    expert: list[PositiveInt] = []
    """Expert parallel sizes beside 1."""
    covers: list[Literal["decode", "verify", "draft"]]
    """Parts of a step that it runs."""
    algorithms: list[Text] = []
    """Speculative algorithms whose steps are covered."""
    sms: PositiveInt | None = None
    """Multiprocessors that its grid takes at once; a partitioned GPU may have fewer. Null: not
    published."""
    source: Text
    """Where the row is published."""


class EvidenceOf(StrictModel):
    """One proposition to judge when the mechanism is asked for."""

    mechanism: Name
    """Name of the verdict."""
    probe: Name
    """The probe that judges it."""
    value: Scalar | None = None
    """What the probe compares with."""
    value_option: Text | None = None
    """Option whose value the probe compares with."""
    proof_rung: Rung = "built"
    """Lowest rung that may say PROVEN."""
    when: Literal["always", "draft"] = "always"
    """`draft`: only when the deployment has a draft model that has an LM head."""


class KernelFamilies(Entry):
    """Families of kernels that belong to no single mechanism."""

    kind: Literal["KernelFamilies"]
    """What this file describes."""
    families: list[Family]
    """In the order in which they are tried."""


class Kernel(Entry):
    """A mechanism: what it needs, excludes, sets, covers, and what proves it."""

    kind: Literal["Kernel"]
    """What this file describes."""
    family: Literal["speculation", "moe", "lm-head", "megakernel", "cuda-graphs", "kv-cache"]
    """What it is about; two of one exclusive family cannot be on together."""
    status: Literal["released", "experimental", "research"]
    """How it can be had."""
    activation: Literal["public", "unpublished"] = "public"
    """Whether it is public how to switch it on."""
    provider: Text | None = None
    """Package or build that brings it."""
    plugin: Plugin | None = None
    """What brings it where the profile says `provider: configurator`; null: nothing here does."""
    needs: Needs = Needs()
    """What must be there."""
    by_hand: list[ByHand] = []
    """What is changed by hand for it in the engine's environment."""
    excludes: list[Name] = []
    """Mechanisms that cannot be on together with it."""
    options: dict[Text, Option] = {}
    """Keys a profile may write."""
    args: dict[ArgName, Scalar | From | list[Scalar]] = {}
    """Engine arguments it sets."""
    env: dict[EnvName, Scalar | From] = {}
    """Environment it sets."""
    changes: ServedAs = ServedAs()
    """What it makes of parts of the model; what its arguments say is not repeated here."""
    algorithm: Text | None = None
    """Speculative algorithm, as the engine names it."""
    topk: Literal["chain", "tree"] | None = None
    """Whether a verify step takes a chain or a tree of candidates."""
    drafting: Drafting | None = None
    """Speculation only: the passes of one round; null: not known."""
    coverage: list[Coverage] = []
    """Published support table; empty: no table."""
    alternatives: list[Text] = []
    """What to do where it cannot be had."""
    trace: list[Family] = []
    """Its kernels in a profiler trace; tried before every general family."""
    per_step: list[PerStep] = []
    """How many kernels a covered step runs; empty: not published."""
    evidence: list[EvidenceOf] = []
    """What is judged when it is asked for."""
    selftests: list[SelfTest] = []
    """Programs that try it on a machine, and what they promise."""
