"""What mechanisms ask of the machine, the checkpoint and the engine build, and of each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from configurator import Deployment, Finding, Mechanism, rule

# The rules of these families say the same with the numbers that matter there.
_OWN_RULES = ("lm-head", "megakernel")


def _otherwise(mechanism: Mechanism, remedy: str) -> str:
    return "; or ".join([remedy, *mechanism.kernel.alternatives])


@rule("REF101", "gpu-architecture-not-served", source="the kernel entry's needs.arch")
def gpu_architecture_not_served(deployment: Deployment) -> Iterator[Finding]:
    """A mechanism has no kernels for the GPUs of this machine.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          humming-mxfp4-moe: {overrides: {needs: {arch: [sm_90]}}}

    Good:
        extends: ling-3.0-flash-spark
    """
    for mechanism in deployment.mechanisms.values():
        archs = mechanism.kernel.needs.arch
        arch = deployment.hardware.arch
        if archs and arch is not None and arch not in archs:
            yield Finding(
                mechanism.path,
                f"{mechanism.name} runs on {', '.join(archs)}; {deployment.hardware.name} is "
                f"{arch}",
                _otherwise(mechanism, f"remove it with '{mechanism.name}: null'"),
            )


@rule("REF102", "expert-storage-not-served", source="the kernel entry's needs.experts")
def expert_storage_not_served(deployment: Deployment) -> Iterator[Finding]:
    """A mechanism reads routed experts in another storage than the checkpoint's.

    Bad:
        extends: ling-3.0-flash-spark
        model: {overrides: {quantization: {experts: bf16}}}

    Good:
        extends: ling-3.0-flash-spark
    """
    if not deployment.model.described:
        return
    stored = deployment.model.quantization.experts if deployment.model.moe else None
    for mechanism in deployment.mechanisms.values():
        wanted = mechanism.kernel.needs.experts
        if wanted and stored not in wanted:
            has = f"are {stored}" if stored else "do not exist"
            yield Finding(
                mechanism.path,
                f"{mechanism.name} reads {' or '.join(wanted)} experts; those of "
                f"{deployment.model.name} {has}",
                f"remove it with '{mechanism.name}: null', or serve a checkpoint that has them",
            )


@rule("REF103", "checkpoint-head-not-served", source="the kernel entry's needs.lm_head")
def checkpoint_head_not_served(deployment: Deployment) -> Iterator[Finding]:
    """A mechanism starts from an LM head stored otherwise than the checkpoint's.

    Bad:
        extends: ling-3.0-flash-spark
        model: {overrides: {quantization: {lm_head: fp8}}}

    Good:
        extends: ling-3.0-flash-spark
    """
    stored = deployment.model.quantization.lm_head
    for mechanism in deployment.mechanisms.values():
        wanted = mechanism.kernel.needs.lm_head
        if wanted and stored not in wanted:
            yield Finding(
                mechanism.path,
                f"{mechanism.name} starts from a {' or '.join(wanted)} LM head; that of "
                f"{deployment.model.name} is stored in {stored}",
                f"remove it with '{mechanism.name}: null'",
            )


@rule("REF104", "checkpoint-without-draft-layers", source="num_nextn_predict_layers in config.json")
def checkpoint_without_draft_layers(deployment: Deployment) -> Iterator[Finding]:
    """Drafting from the target's own checkpoint, which has no next-token-prediction layers.

    Bad:
        extends: ling-3.0-flash-spark
        model: {overrides: {nextn_layers: 0}}

    Good:
        extends: ling-3.0-flash-spark
    """
    for mechanism in deployment.mechanisms.values():
        draft = mechanism.draft or deployment.model
        if mechanism.kernel.needs.nextn_layers and draft.described and not draft.nextn_layers:
            yield Finding(
                mechanism.path,
                f"{mechanism.name} drafts with next-token-prediction layers; {draft.name} has 0",
                f"remove it with '{mechanism.name}: null', or use a separate draft",
            )


@rule("REF105", "build-lacks-ability", source="the facts of the engine entry")
def build_lacks_ability(deployment: Deployment) -> Iterator[Finding]:
    """A mechanism needs an ability that this engine build is known not to have.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          humming-mxfp4-moe: {overrides: {needs: {facts: [example-ability]}}}
        engine: {overrides: {facts: {example-ability: "no"}}}

    Good:
        extends: ling-3.0-flash-spark
    """
    for mechanism in deployment.mechanisms.values():
        if mechanism.kernel.family == "lm-head":
            continue
        for fact in mechanism.facts:
            if deployment.engine.facts.get(fact) == "no":
                yield Finding(
                    mechanism.path,
                    f"{mechanism.name} needs {fact}, which {deployment.engine.name} does not have",
                    _otherwise(mechanism, "choose another engine.build"),
                )


def _undecided(deployment: Deployment, *, probed: bool) -> Iterator[Finding]:
    for mechanism in deployment.mechanisms.values():
        judged = [e for e in deployment.expectations if e.path == mechanism.path and e.required]
        if bool(judged) != probed:
            continue
        for fact in mechanism.facts:
            if deployment.engine.facts.get(fact, "unknown") == "unknown":
                names = ", ".join(e.mechanism for e in judged)
                decides = f"decided at start-up by {names}" if probed else "nothing will decide it"
                yield Finding(
                    mechanism.path,
                    f"it is not public whether {deployment.engine.name} has {fact}, which "
                    f"{mechanism.name} needs; {decides}",
                    "keep 'on_refuted: fail'" if probed else "set 'on_refuted: fail' and check it",
                )


@rule("REF106", "build-ability-decided-at-start", severity="info", source="the engine entry")
def build_ability_decided_at_start(deployment: Deployment) -> Iterator[Finding]:
    """Whether the build has a needed ability is not public, but a required probe decides it.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          humming-mxfp4-moe: {overrides: {needs: {facts: [example-ability]}}}

    Good:
        extends: ling-3.0-flash-spark
        optimizations:
          humming-mxfp4-moe: {overrides: {needs: {facts: [example-ability]}}}
        engine: {overrides: {facts: {example-ability: "yes"}}}
    """
    yield from _undecided(deployment, probed=True)


@rule("REF107", "build-ability-undecided", severity="warning", source="the engine entry")
def build_ability_undecided(deployment: Deployment) -> Iterator[Finding]:
    """Whether the build has a needed ability is not public, and no required probe decides it.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          humming-mxfp4-moe:
            on_refuted: warn
            overrides: {needs: {facts: [example-ability]}}

    Good:
        extends: ling-3.0-flash-spark
    """
    yield from _undecided(deployment, probed=False)


@rule("REF116", "plugin-of-another-release", source="the kernel entry's plugin.releases")
def plugin_of_another_release(deployment: Deployment) -> Iterator[Finding]:
    """A launch brings a plugin along that was not written for this release of the engine.

    Bad:
        extends: ling-3.0-flash-spark-plugin
        engine: {version: 0.5.16}

    Good:
        extends: ling-3.0-flash-spark-plugin
    """
    for mechanism in deployment.mechanisms.values():
        plugin = mechanism.kernel.plugin if mechanism.plugin else None
        if plugin and deployment.engine.version not in plugin.releases:
            releases = ", ".join(plugin.releases)
            yield Finding(
                (*mechanism.path, "provider"),
                f"the plugin of {mechanism.name} is written for SGLang {releases}; the engine "
                f"is {deployment.engine.name}",
                f"set engine.version to {plugin.releases[-1]}, or remove the mechanism with "
                f"'{mechanism.name}: null'",
            )


@rule("REF108", "package-of-the-build-not-listed", severity="info", source="the engine entry")
def package_of_the_build_not_listed(deployment: Deployment) -> Iterator[Finding]:
    """A mechanism needs a package that the engine entry does not list.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          humming-mxfp4-moe: {overrides: {needs: {packages: [example-package]}}}

    Good:
        extends: ling-3.0-flash-spark
        optimizations:
          humming-mxfp4-moe: {overrides: {needs: {packages: [example-package]}}}
        engine: {overrides: {packages: {example-package: "1.0"}}}
    """
    for mechanism in deployment.mechanisms.values():
        for package in mechanism.kernel.needs.packages:
            if package not in deployment.engine.packages:
                yield Finding(
                    mechanism.path,
                    f"{mechanism.name} needs the package {package}, which the entry "
                    f"{deployment.engine.name} does not list",
                    f"install {package} in the engine's environment; preflight looks for it",
                )


@rule(
    "REF117",
    "environment-to-be-changed-by-hand",
    severity="info",
    source="by_hand of the engine and kernel entries",
)
def environment_to_be_changed_by_hand(deployment: Deployment) -> Iterator[Finding]:
    """On this machine the engine starts only after people have changed something in its
    environment, or it is not known whether they must.

    Bad:
        extends: ling-3.0-flash-spark

    Good:
        extends: ling-3.0-flash-spark
        engine:
          overrides:
            facts: {starts-on-gb10: "yes", humming-gb10-bandwidth-fallback: "yes"}
    """
    engine = deployment.engine
    for path, one in deployment.by_hand:
        lacks = engine.facts.get(one.fact) == "no"
        mended = f"{engine.name} does not mend that"
        if not lacks:
            mended = f"it is not known whether {engine.name} mends that"
        yield Finding(
            path,
            f"{one.why}; {mended}",
            f"{one.change}; once it is there, say so: "
            f"'engine: {{overrides: {{facts: {{{one.fact}: \"yes\"}}}}}}'",
        )


@rule("REF109", "mechanism-without-its-companion", source="the kernel entry's needs.with_any")
def mechanism_without_its_companion(deployment: Deployment) -> Iterator[Finding]:
    """A mechanism takes effect only together with another, and none of those is on.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          humming-mxfp4-moe: {overrides: {needs: {with_any: [dflash]}}}

    Good:
        extends: ling-3.0-flash-spark
        optimizations:
          humming-mxfp4-moe: {overrides: {needs: {with_any: [nextn-mtp, dflash]}}}
    """
    for mechanism in deployment.mechanisms.values():
        companions = mechanism.kernel.needs.with_any
        if companions and not set(companions) & set(deployment.mechanisms):
            yield Finding(
                mechanism.path,
                f"{mechanism.name} takes effect only with {' or '.join(companions)}; none is on",
                f"add '{companions[0]}: {{}}' under optimizations",
            )


@rule("REF110", "activation-not-published", source="the kernel entry's status and activation")
def activation_not_published(deployment: Deployment) -> Iterator[Finding]:
    """A research mechanism whose switch is not public: no command can turn it on.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          humming-mxfp4-moe: {overrides: {activation: unpublished}}

    Good:
        extends: ling-3.0-flash-spark
    """
    for mechanism in deployment.mechanisms.values():
        kernel = mechanism.kernel
        if kernel.activation == "unpublished":
            yield Finding(
                mechanism.path,
                f"{mechanism.name} ({kernel.status}): how to switch it on is not public, so no "
                "rendered command can",
                _otherwise(mechanism, f"remove it with '{mechanism.name}: null'"),
            )


@rule("REF111", "mechanisms-exclude-each-other", source="the kernel entries' excludes")
def mechanisms_exclude_each_other(deployment: Deployment) -> Iterator[Finding]:
    """Two mechanisms are on that cannot be on together.

    Bad:
        extends: ling-3.0-flash-spark
        optimizations:
          humming-mxfp4-moe: {overrides: {excludes: [nextn-mtp]}}

    Good:
        extends: ling-3.0-flash-spark
    """
    for first, second in combinations(deployment.mechanisms.values(), 2):
        if first.kernel.family == second.kernel.family and first.kernel.family in _OWN_RULES:
            continue
        if second.name in first.kernel.excludes or first.name in second.kernel.excludes:
            yield Finding(
                second.path,
                f"{first.name} and {second.name} cannot be on together",
                f"remove one, for instance with '{second.name}: null'",
            )
