"""The longest sequence: what the model has, what is asked for, and overrides."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Deployment, Finding, rule

_ALLOW = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
_OVERRIDE = "json-model-override-args"


def _stretched(deployment: Deployment) -> bool:
    """The model's positions are changed by an override."""
    value = str(deployment.arg(_OVERRIDE) or "")
    return "rope" in value or "max_position_embeddings" in value


def _allowed(deployment: Deployment) -> bool:
    variable = deployment.env.get(_ALLOW)
    return variable is not None and variable.value.lower() in ("1", "true", "yes", "y", "on", "t")


@rule("CTX101", "context-beyond-the-model", source="sglang 0.5.23: model_config.py, context length")
def context_beyond_the_model(deployment: Deployment) -> Iterator[Finding]:
    """The context is longer than the model's own, and nothing extends it: the engine refuses it.

    Bad:
        extends: ling-3.0-flash-spark
        workload: {context: 1048576}

    Good:
        extends: ling-3.0-flash-spark
        workload: {context: 262144}
    """
    context, model = deployment.profile.workload.context, deployment.model
    if (
        context
        and model.context
        and context > model.context
        and not (_stretched(deployment) and _allowed(deployment))
    ):
        missing = [
            name
            for name, there in (
                (f"{_OVERRIDE} with a rope_scaling", _stretched(deployment)),
                (f"{_ALLOW}: 1", _allowed(deployment)),
            )
            if not there
        ]
        yield Finding(
            ("workload", "context"),
            f"context {context:,} is beyond the {model.context:,} of {model.name}; missing: "
            + " and ".join(missing),
            f"set workload.context to {model.context}, or add what is missing under extra",
        )


@rule(
    "CTX102",
    "needless-context-override",
    severity="warning",
    source="0xBakeer/ling3-flash-spark: the checkpoint has 262,144 natively",
)
def needless_context_override(deployment: Deployment) -> Iterator[Finding]:
    """A rope override, or the permission for a longer context, where the model needs neither: the
    override changes every position.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {env: {SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN: 1}}

    Good:
        extends: ling-3.0-flash-spark
    """
    known = deployment.model.context
    wanted = deployment.profile.workload.context or known
    if known is None or wanted is None or wanted > known:
        return
    needless = []
    if _stretched(deployment):
        needless.append((_OVERRIDE, deployment.args[_OVERRIDE].path))
    if _allowed(deployment):
        needless.append((_ALLOW, deployment.env[_ALLOW].path))
    for name, path in needless:
        yield Finding(
            path,
            f"{name} is set, but {deployment.model.name} has {known:,} tokens "
            f"of its own and the profile wants {wanted:,}",
            f"remove {name}",
        )


@rule("CTX103", "workload-beyond-the-context", source="docs/reference/profile.md, Workload")
def workload_beyond_the_context(deployment: Deployment) -> Iterator[Finding]:
    """Prompt and output together do not fit into the context.

    Bad:
        extends: ling-3.0-flash-spark
        workload: {context: 8192, input_tokens: 8000, output_tokens: 2000}

    Good:
        extends: ling-3.0-flash-spark
        workload: {context: 16384, input_tokens: 8000, output_tokens: 2000}
    """
    workload = deployment.profile.workload
    context = workload.context or deployment.model.context
    total = (workload.input_tokens or 0) + (workload.output_tokens or 0)
    if context is not None and total > context:
        yield Finding(
            ("workload", "output_tokens"),
            f"{workload.input_tokens or 0} tokens in and {workload.output_tokens or 0} out are "
            f"{total}; the context is {context}",
            f"set workload.context to at least {total}",
        )
