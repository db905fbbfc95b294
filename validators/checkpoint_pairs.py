"""A draft with a checkpoint of its own, against the target's."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Checkpoint, Finding, Launch, launch_rule

_SHARES_HIDDEN = ("NEXTN", "EAGLE", "EAGLE3")
_LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
_OWN_WIDTH = "Gemma4Assistant"
"""Drafts that NEXTN serves at a width of their own."""
_TRUE = ("1", "true", "yes", "y", "on", "t")


def _algorithm(launch: Launch) -> str:
    return (launch.text("speculative-algorithm") or "").upper()


def _pair(launch: Launch) -> tuple[Checkpoint, Checkpoint] | None:
    """Target and draft, when both are on this machine and are two."""
    target, draft = launch.checkpoint, launch.draft
    if target is None or draft is None or target.path == draft.path:
        return None
    return (target, draft) if launch.on("speculative-algorithm") else None


def _place(launch: Launch) -> tuple[str | int, ...]:
    option = launch.option("speculative-draft-model-path")
    option = option or launch.option("speculative-algorithm")
    return launch.path(option) if option else ("argv",)


def _allowed(launch: Launch) -> bool:
    """A longer context is allowed, or nobody can tell."""
    variable = launch.env.get(_LONGER)
    return variable is not None and (variable.value is None or variable.value.lower() in _TRUE)


@launch_rule(
    "CKPT121",
    "draft-context-below-the-targets",
    source="sglang 0.5.23: model_config.py, _derive_context_length of a draft",
)
def draft_context_below_the_targets(launch: Launch) -> Iterator[Finding]:
    """A draft runs at the target's positions. The engine refuses one whose config ends before the
    context of the launch, unless the variable for longer contexts is set; many EAGLE3 drafts
    declare 2048.

    Bad:
        # config: {"max_position_embeddings": 131072}
        # draft-config: {"max_position_embeddings": 2048}
        sglang serve --model-path CHECKPOINT --speculative-algorithm EAGLE3 --speculative-draft-model-path DRAFT

    Good:
        # config: {"max_position_embeddings": 131072}
        # draft-config: {"max_position_embeddings": 2048}
        sglang serve --model-path CHECKPOINT --speculative-algorithm EAGLE3 --speculative-draft-model-path DRAFT --context-length 2048
    """  # noqa: E501
    pair = _pair(launch)
    if pair is None or _allowed(launch) or launch.on("json-model-override-args"):
        return
    target, draft = pair
    given = launch.on("context-length")
    context = launch.integer("context-length") if given else target.context
    limit = draft.context
    if context and limit and context > limit:
        yield Finding(
            _place(launch),
            f"the context is {context}, and the draft's config.json ends at {limit}",
            f"set {_LONGER}=1 if the draft was trained beyond {limit}, or --context-length {limit}",
        )


@launch_rule(
    "CKPT122",
    "draft-of-another-width",
    source="sglang 0.5.23: llama_eagle3.py, target_hidden_size or hidden_size",
)
def draft_of_another_width(launch: Launch) -> Iterator[Finding]:
    """The draft takes hidden states of another width than the target has: it was made for another
    model.

    Bad:
        # config: {"hidden_size": 5120}
        # draft-config: {"hidden_size": 2048, "target_hidden_size": 4096}
        sglang serve --model-path CHECKPOINT --speculative-algorithm EAGLE3 --speculative-draft-model-path DRAFT

    Good:
        # config: {"hidden_size": 5120}
        # draft-config: {"hidden_size": 2048, "target_hidden_size": 5120}
        sglang serve --model-path CHECKPOINT --speculative-algorithm EAGLE3 --speculative-draft-model-path DRAFT
    """  # noqa: E501
    pair = _pair(launch)
    if pair is None:
        return
    target, draft = pair
    width, key = draft.target_hidden_size, "target_hidden_size"
    own = any(name.startswith(_OWN_WIDTH) for name in draft.architectures)
    if width is None and _algorithm(launch) in _SHARES_HIDDEN and not own:
        width, key = draft.hidden_size, "hidden_size"
    if width and target.hidden_size and width != target.hidden_size:
        yield Finding(
            _place(launch),
            f"the draft's {key} is {width}, the target's hidden_size {target.hidden_size}",
            f"name a draft made for this target, one with {key} {target.hidden_size}",
        )


@launch_rule(
    "CKPT123",
    "draft-of-another-vocabulary",
    source="sglang 0.5.23: standalone_worker_v2.py, _validate_vocab_compatibility",
)
def draft_of_another_vocabulary(launch: Launch) -> Iterator[Finding]:
    """A STANDALONE draft speaks in the target's token numbers: the engine refuses another size.
    The smaller vocabulary of an EAGLE3 draft is one of the target's tokens, and cannot be larger.

    Bad:
        # config: {"vocab_size": 152064}
        # draft-config: {"vocab_size": 151936}
        sglang serve --model-path CHECKPOINT --speculative-algorithm STANDALONE --speculative-draft-model-path DRAFT

    Good:
        # config: {"vocab_size": 152064}
        # draft-config: {"vocab_size": 152064, "draft_vocab_size": 32000}
        sglang serve --model-path CHECKPOINT --speculative-algorithm EAGLE3 --speculative-draft-model-path DRAFT
    """  # noqa: E501
    pair = _pair(launch)
    if pair is None or not pair[0].vocabulary:
        return
    target, draft = pair
    key, size = "vocab_size", draft.vocabulary
    wrong = _algorithm(launch) == "STANDALONE" and size is not None and size != target.vocabulary
    if not wrong and draft.draft_vocabulary:
        key, size = "draft_vocab_size", draft.draft_vocabulary
        wrong = size > (target.vocabulary or 0)
    if wrong:
        yield Finding(
            _place(launch),
            f"the draft's {key} is {size}, the target's vocab_size {target.vocabulary}",
            f"name a draft of this target's vocabulary, {target.vocabulary} tokens",
        )


@launch_rule(
    "CKPT124",
    "draft-layers-beyond-the-target",
    source="sglang 0.5.23: spec_aux_hidden_state.py, llama_eagle3.py",
)
def draft_layers_beyond_the_target(launch: Launch) -> Iterator[Finding]:
    """The draft takes hidden states of layers that the target does not have, or of another number
    of layers than its first weight is made for.

    Bad:
        # config: {"num_hidden_layers": 28}
        # draft-config: {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 18, 33]}}
        sglang serve --model-path CHECKPOINT --speculative-algorithm EAGLE3 --speculative-draft-model-path DRAFT

    Good:
        # config: {"num_hidden_layers": 36}
        # draft-config: {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 18, 33]}}
        sglang serve --model-path CHECKPOINT --speculative-algorithm EAGLE3 --speculative-draft-model-path DRAFT
    """  # noqa: E501
    pair = _pair(launch)
    ids = pair[1].aux_layers if pair else None
    if pair is None or ids is None:
        return
    target, draft = pair
    if target.layers and max(ids) >= target.layers:
        yield Finding(
            _place(launch),
            f"the draft takes hidden states of layers {', '.join(map(str, ids))}, and the target "
            f"has {target.layers} layers",
            f"name a draft made for a target of {target.layers} layers",
        )
    made_for = _inputs(draft, target)
    if made_for is not None and made_for != len(ids):
        yield Finding(
            _place(launch),
            f"the draft names {len(ids)} layers of the target, and its fc.weight is made for "
            f"{made_for}",
            f"name {made_for} layers in {draft.path}/config.json, as the draft was trained",
        )


def _inputs(draft: Checkpoint, target: Checkpoint) -> int | None:
    """How many hidden states of the target fit the draft's first weight."""
    weight = draft.tensors.get("fc.weight") or draft.tensors.get("model.fc.weight")
    width = draft.target_hidden_size or target.hidden_size
    if weight is None or len(weight.shape) != 2 or not width or weight.shape[1] % width:
        return None
    return weight.shape[1] // width
