"""The longest sequence: what the model has, what is asked for, and overrides."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Deployment, Finding, Launch, launch_rule, rule

_ALLOW = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
_OVERRIDE = "json-model-override-args"


def _stretches(override: str) -> bool:
    """The model's positions are changed by an override."""
    return "rope" in override or "max_position_embeddings" in override


def _stretched(deployment: Deployment) -> bool:
    return _stretches(str(deployment.arg(_OVERRIDE) or ""))


def _is_true(value: str | None) -> bool:
    return (value or "").lower() in ("1", "true", "yes", "y", "on", "t")


def _allowed(deployment: Deployment) -> bool:
    variable = deployment.env.get(_ALLOW)
    return variable is not None and _is_true(variable.value)


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


@launch_rule(
    "CTX102",
    "needless-context-override",
    severity="warning",
    source="0xBakeer/ling3-flash-spark: the checkpoint has 262,144 natively",
)
def needless_context_override(launch: Launch) -> Iterator[Finding]:
    """A rope override, or the permission for a longer context, where the model needs neither: the
    override changes every position.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {env: {SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN: 1}}

    Good:
        extends: ling-3.0-flash-spark

    Bad:
        SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 sglang serve \
--model-path inclusionAI/Ling-3.0-flash-fp4 --context-length 262144

    Good:
        SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 sglang serve \
--model-path inclusionAI/Ling-3.0-flash-fp4 --context-length 524288
    """
    known = launch.entry.context if launch.entry else None
    override, allowed = launch.option(_OVERRIDE), launch.env.get(_ALLOW)
    stretched = override is not None and _stretches(launch.text(_OVERRIDE) or "")
    # Without a length the override itself may be what makes the context longer.
    wanted = launch.integer("context-length") or (None if stretched else known)
    if launch.entry is None or known is None or wanted is None or wanted > known:
        return
    needless = []
    if override is not None and stretched:
        needless.append((_OVERRIDE, launch.path(override)))
    if allowed is not None and _is_true(allowed.value):
        needless.append((_ALLOW, allowed.path))
    for name, path in needless:
        yield Finding(
            path,
            f"{name} is set, but {launch.entry.name} has {known:,} tokens of its own, and "
            f"{wanted:,} are wanted",
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
