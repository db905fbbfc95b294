"""Arguments of speculative decoding: what the engine refuses, ignores, or replaces in silence."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Finding, Launch, Option, before, did_you_mean, launch_rule, since

_EAGLE = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
_BLOCK = ("DFLASH", "DSPARK")
_SOURCE = "sglang 0.5.9 to 0.5.23: server_args.py, arg_groups/speculative_hook.py"
# The release that first knows an algorithm; the others are older than 0.5.5.
_ALGORITHMS = {
    "EAGLE": "0.5.1",
    "EAGLE3": "0.5.1",
    "NEXTN": "0.5.1",
    "STANDALONE": "0.5.1",
    "NGRAM": "0.5.3",
    "DFLASH": "0.5.11",
    "FROZEN_KV_MTP": "0.5.12",
    "DSPARK": "0.5.16",
    "UNO": "0.5.20",
}


def _algorithm(launch: Launch) -> str | None:
    """The algorithm in capitals; None without one, or where nobody can tell."""
    text = launch.text("speculative-algorithm")
    return text.upper() if text else None


def _given(launch: Launch, name: str) -> tuple[Option, int] | None:
    """An option with its whole number; None when it is not given or has none."""
    option, number = launch.option(name), launch.integer(name)
    return (option, number) if option is not None and number is not None else None


def _runs_frozen(launch: Launch) -> bool:
    """The draft is one of Gemma 4, which the engine runs by an algorithm without a window."""
    if launch.draft is not None and launch.draft.architectures:
        return launch.draft.architectures[0].startswith("Gemma4")
    return "assistant" in (launch.text("speculative-draft-model-path") or "").lower()


def _has_dp_attention(launch: Launch) -> bool:
    groups = launch.integer("attn-dp-size") or launch.integer("dp-size") or 1
    return groups > 1 and (launch.on("enable-dp-attention") or launch.on("attn-dp-size"))


@launch_rule(
    "SPEC117",
    "speculative-algorithm-unknown",
    source="sglang 0.5.12 to 0.5.23: speculative/spec_info.py; older parsers have choices",
)
def speculative_algorithm_unknown(launch: Launch) -> Iterator[Finding]:
    """The parser takes any word for an algorithm; the engine stops later at one that neither it
    nor a plugin knows.

    Bad:
        sglang serve --model-path m --speculative-algorithm EAGEL

    Good:
        sglang serve --model-path m --speculative-algorithm EAGLE
    """
    option, name, known = (
        launch.option("speculative-algorithm"),
        _algorithm(launch),
        launch.catalogue,
    )
    if option is None or name is None or known is None or name == "NONE":
        return
    # Older releases have choices, and the parser's own refusal is reported already.
    if option.flag is not None and option.flag.choices:
        return
    fitting = list(known.named("speculative-algorithm"))
    if name not in fitting and launch.engine.released and "SGLANG_PLUGINS" not in launch.env:
        first = _ALGORITHMS.get(name)
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {name} is unknown to sglang {known.version}"
            + (f": it came with {first}" if first else ""),
            did_you_mean(name, fitting),
        )


@launch_rule("SPEC118", "window-without-steps", source=_SOURCE)
def window_without_steps(launch: Launch) -> Iterator[Finding]:
    """The engine chooses steps, topk and window itself, or none of them: with only a part it
    stops at a bare assertion or a TypeError.

    Bad:
        sglang serve --model-path m --speculative-algorithm EAGLE --speculative-num-draft-tokens 4

    Good:
        sglang serve --model-path m --speculative-algorithm EAGLE --speculative-num-steps 3 \
--speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    """
    if _algorithm(launch) not in _EAGLE or launch.on("speculative-adaptive"):
        return
    if _runs_frozen(launch):
        return
    names = ("num-steps", "eagle-topk", "num-draft-tokens")
    given = [name for name in names if launch.on(f"speculative-{name}")]
    # Steps and topk 1 are enough: the window then follows from the steps.
    chain = given == ["num-steps", "eagle-topk"] and launch.text("speculative-eagle-topk") == "1"
    if not given or len(given) == len(names) or chain:
        return
    option = launch.option(f"speculative-{given[0]}")
    assert option is not None
    missing = [f"--speculative-{name}" for name in names if name not in given]
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} without {' and '.join(missing)}: the engine stops at its start",
        f"set {' and '.join(missing)} too, or none of the three",
    )


@launch_rule(
    "SPEC119",
    "tree-on-a-backend-without-trees",
    source=_SOURCE + "; the backends: flashinfer, since 0.5.9 fa3, since 0.5.14 triton",
)
def tree_on_a_backend_without_trees(launch: Launch) -> Iterator[Finding]:
    """A tree of candidates (topk above 1) over pages of several tokens needs an attention backend
    that can branch inside a page.

    Bad:
        sglang serve --model-path m --speculative-algorithm EAGLE --speculative-num-steps 3 \
--speculative-eagle-topk 4 --speculative-num-draft-tokens 8 --page-size 64 \
--attention-backend trtllm_mla

    Good:
        sglang serve --model-path m --speculative-algorithm EAGLE --speculative-num-steps 3 \
--speculative-eagle-topk 4 --speculative-num-draft-tokens 8 --page-size 64 \
--attention-backend flashinfer
    """
    topk, backend = _given(launch, "speculative-eagle-topk"), launch.text("attention-backend")
    if _algorithm(launch) not in _EAGLE or topk is None or topk[1] < 2:
        return
    fitting = ["flashinfer"]
    fitting += ["fa3"] if since(launch.catalogue, "0.5.9") else []
    fitting += ["triton"] if since(launch.catalogue, "0.5.14") else []
    roles = ("attention-backend", "prefill-attention-backend", "decode-attention-backend")
    chain_only = "trtllm_mha" in [launch.text(role) for role in roles]
    paged = (launch.integer("page-size") or 1) > 1 and backend and backend not in fitting
    if chain_only or (paged and launch.catalogue is not None):
        page = launch.integer("page-size")
        why = f"with --page-size {page} is refused on {backend}"
        yield Finding(
            launch.path(topk[0]),
            f"{launch.said(topk[0])} {topk[1]} "
            + ("is refused: trtllm_mha verifies chains only" if chain_only else why),
            f"set topk to 1, or --attention-backend to {' or '.join(fitting)}",
        )


@launch_rule(
    "SPEC120",
    "speculation-with-parallelism-it-lacks",
    source=_SOURCE + "; 0.5.5 to 0.5.23: 'Pipeline parallelism is not compatible with'",
)
def speculation_with_parallelism_it_lacks(launch: Launch) -> Iterator[Finding]:
    """Algorithms that do not run with pipeline parallelism or data parallel attention are refused.

    Bad:
        sglang serve --model-path m --tp 4 --dp 4 --enable-dp-attention \
--speculative-algorithm NGRAM

    Good:
        sglang serve --model-path m --tp 4 --speculative-algorithm NGRAM
    """
    option, name, known = (
        launch.option("speculative-algorithm"),
        _algorithm(launch),
        launch.catalogue,
    )
    if option is None or name is None or known is None:
        return
    no_groups = name in ("NGRAM", "STANDALONE", "UNO")
    no_groups = no_groups or (name == "DFLASH" and before(known, "0.5.23"))
    if no_groups and _has_dp_attention(launch):
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {name} does not run with data parallel attention in sglang "
            f"{known.version}",
            "remove data parallel attention, or use another algorithm",
        )
    stages = launch.integer("pp-size") or 1
    # SPEC111 says it of DFLASH and DSPARK.
    if stages > 1 and name not in _BLOCK and not _runs_in_stages(launch, name):
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {name} with --pp-size {stages}: sglang {known.version} does "
            "not run it with pipeline parallelism",
            "set --pp-size to 1 and a larger --tp-size",
        )


def _runs_in_stages(launch: Launch, name: str) -> bool:
    """EAGLE alone, since 0.5.20, where a server only prefills or a variable asks for it."""
    prefill = launch.text("disaggregation-mode") == "prefill"
    asked = prefill or "SGLANG_ENABLE_PP_SPEC" in launch.env
    return name in ("EAGLE", "NEXTN") and asked and since(launch.catalogue, "0.5.20")


@launch_rule("SPEC121", "rejection-sampling-with-a-tree", source="sglang 0.5.14 to 0.5.23: "
             "speculative_hook.py")  # fmt: skip
def rejection_sampling_with_a_tree(launch: Launch) -> Iterator[Finding]:
    """Rejection sampling is made for one chain of EAGLE, EAGLE3 or NEXTN, and without accept
    thresholds.

    Bad:
        sglang serve --model-path m --speculative-algorithm EAGLE --speculative-num-steps 3 \
--speculative-eagle-topk 4 --speculative-num-draft-tokens 8 --speculative-use-rejection-sampling

    Good:
        sglang serve --model-path m --speculative-algorithm EAGLE --speculative-num-steps 3 \
--speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --speculative-use-rejection-sampling
    """
    option, name = launch.option("speculative-use-rejection-sampling"), _algorithm(launch)
    if option is None or name is None:
        return
    topk = launch.integer("speculative-eagle-topk")
    thresholds = [
        kind for kind in ("single", "acc")
        if launch.number(f"speculative-accept-threshold-{kind}") not in (None, 1.0)
    ]  # fmt: skip
    reason = ""
    if name in ("STANDALONE", "FROZEN_KV_MTP", "UNO"):
        reason = f"--speculative-algorithm {name}"
    elif name in _EAGLE and topk is not None and topk != 1:
        reason = f"--speculative-eagle-topk {topk}"
    elif name in _EAGLE and thresholds:
        reason = f"--speculative-accept-threshold-{thresholds[0]}"
    if reason:
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} is refused with {reason}",
            "remove it, or use EAGLE, EAGLE3 or NEXTN with topk 1 and thresholds of 1",
        )


@launch_rule(
    "SPEC122",
    "window-is-not-the-block",
    source="sglang 0.5.12 (DFLASH) and 0.5.16 (DSPARK) to 0.5.23: speculative_hook.py",
)
def window_is_not_the_block(launch: Launch) -> Iterator[Finding]:
    """The window of a block draft follows from its block: DFLASH verifies the block, DSPARK the
    block and the current token. Another window is refused.

    Bad:
        sglang serve --model-path m --speculative-algorithm DSPARK \
--speculative-draft-model-path d --speculative-dspark-block-size 5 \
--speculative-num-draft-tokens 8

    Good:
        sglang serve --model-path m --speculative-algorithm DSPARK \
--speculative-draft-model-path d --speculative-dspark-block-size 5 \
--speculative-num-draft-tokens 6
    """
    name, window = _algorithm(launch), _given(launch, "speculative-num-draft-tokens")
    if name not in _BLOCK or window is None:
        return
    flag = f"speculative-{name.lower()}-block-size"
    block = launch.integer(flag)
    wanted = None if block is None else block + 1 if name == "DSPARK" else block
    # SPEC106 says it of a profile's own mechanism.
    if wanted is not None and window[1] != wanted and _both_by_hand(launch, window[0], flag):
        yield Finding(
            launch.path(window[0]),
            f"{launch.said(window[0])} {window[1]}: {name} with --{flag} {block} verifies {wanted}",
            f"set --speculative-num-draft-tokens to {wanted}, or leave it out",
        )


def _both_by_hand(launch: Launch, window: Option, flag: str) -> bool:
    block = launch.option(flag)
    assert block is not None
    return not any(launch.words[o.index].origin.startswith("kernel") for o in (window, block))


@launch_rule("SPEC123", "algorithm-without-its-draft", source=_SOURCE + "; ModelConfig takes the "
             "target's path for a draft without one")  # fmt: skip
def algorithm_without_its_draft(launch: Launch) -> Iterator[Finding]:
    """DFLASH is refused without the path of a draft. EAGLE3 and STANDALONE take the target itself
    for the draft, which then cannot be loaded, or drafts as slowly as the target.

    Bad:
        sglang serve --model-path m --speculative-algorithm EAGLE3

    Good:
        sglang serve --model-path m --speculative-algorithm EAGLE3 \
--speculative-draft-model-path d
    """
    option, name = launch.option("speculative-algorithm"), _algorithm(launch)
    if option is None or name not in ("DFLASH", "EAGLE3", "STANDALONE"):
        return
    # SPEC102 says it of a profile's own mechanism.
    by_hand = not launch.words[option.index].origin.startswith("kernel")
    if by_hand and not launch.on("speculative-draft-model-path"):
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {name} without --speculative-draft-model-path",
            "give the path of a draft that was trained for this target",
        )
