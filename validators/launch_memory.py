"""Numbers that the engine takes as they are and breaks on later: memory share and concurrency."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Finding, Launch, before, launch_rule, since


def _groups(launch: Launch) -> int:
    """Groups of ranks that each serve requests of their own with data parallel attention."""
    return max(launch.integer("attn-dp-size") or 1, launch.integer("dp-size") or 1)


@launch_rule(
    "MEM106",
    "memory-fraction-outside-zero-and-one",
    source="sglang 0.5.9 to 0.5.23: the KV pool takes what is free minus memory x (1 - fraction)",
)
def memory_fraction_outside_zero_and_one(launch: Launch) -> Iterator[Finding]:
    """A fraction that is none: the engine accepts any number, and finds no memory only after the
    weights are loaded.

    Bad:
        sglang serve --model-path m --mem-fraction-static 85

    Good:
        sglang serve --model-path m --mem-fraction-static 0.85
    """
    option, fraction = launch.option("mem-fraction-static"), launch.number("mem-fraction-static")
    if option is None or fraction is None or 0 < fraction < 1:
        return
    share = fraction / 100 if 1 < fraction < 100 else 0.85
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} {fraction:g} is no share of the memory between 0 and 1",
        f"set --mem-fraction-static to {share:g}, or leave it out",
    )


@launch_rule(
    "MEM107",
    "no-request-may-run",
    source="sglang 0.5.9 to 0.5.23: tp_worker.py, 'max_running_request is zero'; "
    "0.5.23 runs 1 a group instead: kv_cache_configurator.py",
)
def no_request_may_run(launch: Launch) -> Iterator[Finding]:
    """The limit of running requests is none, or becomes none when the groups of data parallel
    attention share it: the engine stops after the weights are loaded.

    Bad:
        # engine: 0.5.17
        sglang serve --model-path m --tp 8 --dp 8 --enable-dp-attention --max-running-requests 4

    Good:
        # engine: 0.5.17
        sglang serve --model-path m --tp 8 --dp 8 --enable-dp-attention --max-running-requests 64
    """
    option, most = launch.option("max-running-requests"), launch.integer("max-running-requests")
    if option is None or most is None:
        return
    shared = launch.on("enable-dp-attention") or launch.on("attn-dp-size")
    groups = _groups(launch) if shared else 1
    if most < 1:
        effect = "the engine runs 1" if since(launch.catalogue, "0.5.23") else "no request may run"
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {most}: {effect}",
            "set --max-running-requests to at least 1, or leave it out",
        )
    elif most < groups and before(launch.catalogue, "0.5.23"):
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {most} over {groups} groups of data parallel attention leaves "
            "each of them 0",
            f"set --max-running-requests to at least {groups}",
        )


@launch_rule(
    "MEM108",
    "running-requests-shared-by-groups",
    severity="info",
    source="sglang 0.5.9 to 0.5.23: max_running_requests // dp_size with data parallel attention",
)
def running_requests_shared_by_groups(launch: Launch) -> Iterator[Finding]:
    """The limit of running requests counts for the whole engine: each group of data parallel
    attention gets its part, and a request of a full group waits while another has room.

    Bad:
        # engine: 0.5.17
        sglang serve --model-path m --tp 8 --dp 8 --enable-dp-attention --max-running-requests 64

    Good:
        # engine: 0.5.17
        sglang serve --model-path m --tp 8 --max-running-requests 64
    """
    option, most = launch.option("max-running-requests"), launch.integer("max-running-requests")
    shared = launch.on("enable-dp-attention") or launch.on("attn-dp-size")
    groups = _groups(launch)
    if option is None or most is None or not shared or not 1 < groups <= most:
        return
    left = most % groups
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} {most} over {groups} groups of data parallel attention is "
        f"{most // groups} each" + (f", {left} of them unused" if left else ""),
        f"plan with {most // groups} a group, or set it to {groups} times what each should run",
    )


@launch_rule(
    "MEM109",
    "prefill-chunk-is-no-multiple-of-the-page",
    source="sglang 0.5.9 to 0.5.23: 'chunked_prefill_size must be divisible by page_size'",
)
def prefill_chunk_is_no_multiple_of_the_page(launch: Launch) -> Iterator[Finding]:
    """Prompts are cut at page borders: a chunk that is no whole number of pages is refused.

    Bad:
        sglang serve --model-path m --chunked-prefill-size 5000 --page-size 64

    Good:
        sglang serve --model-path m --chunked-prefill-size 8192 --page-size 64
    """
    option, chunk = launch.option("chunked-prefill-size"), launch.integer("chunked-prefill-size")
    page = launch.integer("page-size")
    if option is None or not chunk or chunk < 1 or not page or page < 1:
        return
    shared = launch.on("enable-dp-attention") or launch.on("attn-dp-size")
    each = chunk // _groups(launch) if shared else chunk
    if each % page and launch.text("disaggregation-mode") != "decode":
        part = f", {each} a group of data parallel attention," if each != chunk else ""
        wanted = max(1, each // page) * page * (chunk // each if each else 1)
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {chunk}{part} is no multiple of --page-size {page}",
            f"set --chunked-prefill-size to {wanted}",
        )
