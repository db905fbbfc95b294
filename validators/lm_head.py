"""The LM head: FP8 at load, FP32 arithmetic, and how the draft gets it."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Deployment, Finding, Mechanism, rule

_FP32_FLAG = "enable-fp32-lm-head"
_VARIABLE = "SGLANG_ENABLE_FP8_LM_HEAD"
_FACT = "online-fp8-lm-head"
_SHARED = "lm-head-shared"
_BUILD = "set engine.build to ling-v3-mxfp4-humming or ling-v3-814d2d16-patched, which read it"
# Drafts of these algorithms borrow the target's head through the worker's sharing code; DFLASH
# and DSPARK call the target's module itself (sglang 0.5.23, dflash_worker_v2.py).
_BORROWING = ("NEXTN", "EAGLE")


def _fp8_head(deployment: Deployment) -> Mechanism | None:
    """The mechanism that quantizes the head at load."""
    heads = deployment.of_family("lm-head")
    return next((m for m in heads if _VARIABLE in m.kernel.env), None)


def _or_plugin(deployment: Deployment, remedy: str) -> str:
    """What else helps where the build has no FP8 head, or shares it badly: the entry's plugin."""
    head = _fp8_head(deployment)
    plugin = head.kernel.plugin if head else None
    if head is None or plugin is None or deployment.engine.version not in plugin.releases:
        return remedy
    wish = f"'{head.name}: {{provider: configurator}}'"
    return f"{wish} brings a plugin along that does it here; or {remedy}"


def _borrowing_draft(deployment: Deployment) -> Mechanism | None:
    """The drafting mechanism whose draft takes the target's head; None when there is no trap."""
    drafting = deployment.speculation
    if drafting is None or drafting.draft is None or deployment.model.tied_embeddings:
        return None
    takes_head = not drafting.separate_draft or drafting.draft.lm_head_from_target
    return drafting if drafting.kernel.algorithm in _BORROWING and takes_head else None


@rule("HEAD101", "fp8-head-with-fp32-head", source="sglang 0.5.23: logits_processor.py")
def fp8_head_with_fp32_head(deployment: Deployment) -> Iterator[Finding]:
    """An FP8 LM head and FP32 LM-head arithmetic exclude each other; the FP32 flag is ignored by
    a quantized head, and with an aliased head the step becomes slower in silence.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {args: {enable-fp32-lm-head: true}}

    Good:
        extends: ling-3.0-flash-spark
    """
    head, flag = _fp8_head(deployment), deployment.args.get(_FP32_FLAG)
    if head is not None and flag is not None:
        named = flag.path[0] == "optimizations"
        yield Finding(
            flag.path,
            f"{head.name} makes the LM head FP8, {flag.origin} sets --{_FP32_FLAG}: a quantized "
            "head ignores it",
            f"remove it with '{flag.path[-1]}: null'" if named else "remove it from extra.args",
        )


@rule("HEAD102", "fp8-head-variable-not-declared", source="sglang 0.5.23: environ.py; UPSTREAM.md")
def fp8_head_variable_not_declared(deployment: Deployment) -> Iterator[Finding]:
    """The variable of the online FP8 head is declared by no released SGLang, and unknown
    variables are ignored without a word.

    Bad:
        extends: ling-3.0-flash-spark
        engine: {build: sglang-0.5.23}

    Good:
        extends: ling-3.0-flash-spark
        engine: {build: ling-v3-mxfp4-humming}
    """
    set_by = deployment.env.get(_VARIABLE)
    engine = deployment.engine
    if set_by is None or _VARIABLE in engine.adds.env or engine.facts.get(_FACT) == "yes":
        return
    yield Finding(
        set_by.path,
        f"{_VARIABLE} is declared by no released SGLang, and {engine.name} does not add it: it is "
        "ignored without a word",
        _or_plugin(deployment, _BUILD),
    )


@rule("HEAD103", "fp8-head-stays-bf16", source="sglang 0.5.23: Fp8Config.get_quant_method")
def fp8_head_stays_bf16(deployment: Deployment) -> Iterator[Finding]:
    """In this build the LM head is not quantized, whatever is set and whatever is logged.

    Bad:
        extends: ling-3.0-flash-spark
        engine: {build: sglang-0.5.23}

    Good:
        extends: ling-3.0-flash-spark
        engine: {build: ling-v3-mxfp4-humming}
    """
    head = _fp8_head(deployment)
    if head and _FACT in head.facts and deployment.engine.facts.get(_FACT) == "no":
        yield Finding(
            head.path,
            f"{deployment.engine.name} leaves the LM head BF16 though the variable is set; with "
            "the public patch forced onto it, 'Online FP8 quantization enabled for lm_head.' is "
            "printed all the same",
            f"{_or_plugin(deployment, _BUILD)}, or remove it with '{head.name}: null'",
        )


@rule(
    "HEAD104",
    "draft-reads-fp8-head-as-bf16",
    source="UPSTREAM.md of ly01325/Ling3-Flash-DGX-Spark; sglang 0.5.23: eagle_worker_v2.py",
)
def draft_reads_fp8_head_as_bf16(deployment: Deployment) -> Iterator[Finding]:
    """With an FP8 head the draft must take the whole LM-head module. A build that shares only the
    weight lets the draft read FP8 bytes as BF16: every flag is set, the server is healthy, and it
    is slower than without any optimization.

    Bad:
        extends: ling-3.0-flash-spark
        engine: {build: sglang-0.5.23}

    Good:
        extends: ling-3.0-flash-spark
        engine:
          overrides:
            lm_head_sharing: {module: [BailingMoeV3ForCausalLM], unknown: []}
    """
    head, drafting = _fp8_head(deployment), _borrowing_draft(deployment)
    architecture = deployment.model.architecture
    if head and head.plugin:
        return  # Its drafts get the module, whatever the build shares.
    if head and drafting and architecture in deployment.engine.lm_head_sharing.weight:
        yield Finding(
            drafting.path,
            f"in {deployment.engine.name} the draft of {architecture} shares only the LM head's "
            "weight: it would read FP8 bytes as BF16 (published for Ling-3.0-flash-fp4 on one DGX "
            "Spark: accepted 1.00, 24.0 tok/s on a workload that is not stated, against 37.81 on "
            "GSM8K without any optimization)",
            _or_plugin(
                deployment,
                "set engine.build to one whose draft takes the module (for Ling "
                "ling-v3-814d2d16-patched, commit 814d2d16 with the public patch), or keep only "
                f"one of {head.name} and {drafting.name}",
            ),
        )


def _unknown_sharing(deployment: Deployment, *, probed: bool) -> Iterator[Finding]:
    head, drafting = _fp8_head(deployment), _borrowing_draft(deployment)
    sharing, architecture = deployment.engine.lm_head_sharing, deployment.model.architecture
    if head is None or drafting is None or architecture in (*sharing.module, *sharing.weight):
        return
    if head.plugin:
        return
    judged = any(e.mechanism == _SHARED and e.required for e in deployment.expectations)
    if judged is probed:
        yield Finding(
            drafting.path,
            f"it is not public whether {deployment.engine.name} lets the draft of {architecture} "
            "take the FP8 LM head with its scale"
            + (f"; {_SHARED} decides it at start-up" if probed else ", and no check decides it"),
            "keep it required" if probed else f"set 'on_refuted: fail' under {head.name}",
        )


@rule("HEAD105", "head-sharing-decided-at-start", severity="info", source="the engine entry")
def head_sharing_decided_at_start(deployment: Deployment) -> Iterator[Finding]:
    """Whether the draft takes the FP8 head as a module is not public; a required check decides.

    Bad:
        extends: ling-3.0-flash-spark

    Good:
        extends: ling-3.0-flash-spark
        engine:
          overrides:
            lm_head_sharing: {module: [BailingMoeV3ForCausalLM], unknown: []}
    """
    yield from _unknown_sharing(deployment, probed=True)


@rule("HEAD106", "head-sharing-undecided", severity="warning", source="the engine entry")
def head_sharing_undecided(deployment: Deployment) -> Iterator[Finding]:
    """Whether the draft takes the FP8 head as a module is not public, and nothing decides it.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          fp8-lm-head: {on_refuted: warn}

    Good:
        extends: ling-3.0-flash-spark
        optimizations:
          fp8-lm-head: {on_refuted: fail}
    """
    yield from _unknown_sharing(deployment, probed=False)


@rule("HEAD107", "fp8-head-set-by-hand", severity="warning", source="docs/design.md, Verdicts")
def fp8_head_set_by_hand(deployment: Deployment) -> Iterator[Finding]:
    """The FP8 head is switched on in `extra.env`: nothing will prove that it took effect.

    Bad:
        extends: ling-3.0-flash-spark-baseline
        optimizations: {fp32-lm-head: null}
        extra: {env: {SGLANG_ENABLE_FP8_LM_HEAD: 1}}

    Good:
        extends: ling-3.0-flash-spark-baseline
        optimizations:
          fp32-lm-head: null
          fp8-lm-head: {}
    """
    set_by = deployment.env.get(_VARIABLE)
    if set_by and set_by.origin == "extra.env" and _fp8_head(deployment) is None:
        yield Finding(
            set_by.path,
            f"{_VARIABLE} stands in extra.env, so no check proves the head's type",
            "write 'fp8-lm-head: {}' under optimizations instead",
        )
