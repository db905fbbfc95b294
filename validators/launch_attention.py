"""Attention backends and KV storage: what a GPU lacks, and what the engine changes in silence."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Finding, Launch, before, launch_rule, since

_ROLES = ("attention-backend", "prefill-attention-backend", "decode-attention-backend")
_HOPPER, _BLACKWELL, _WORKSTATION = 9, 10, 12
# Page sizes that each backend keeps; with any other the engine takes 64.
_PAGES = {
    "flashmla": (64,),
    "trtllm_mla": (32, 64),
    "cutedsl_mla": (32, 64),
    "trtllm_mha": (16, 32, 64),
    "hpc_ops": (64,),
}


def _major(launch: Launch) -> int | None:
    """The GPU's architecture without its variant: 10 for sm_100 and sm_103; None: no GPU known."""
    digits = ((launch.hardware and launch.hardware.arch) or "").removeprefix("sm_")
    return int(digits) // 10 if digits.isdigit() else None


def _served(backend: str, role: str, launch: Launch) -> tuple[int, ...]:
    """Architectures that this release runs a backend on; empty when it refuses none."""
    known = launch.catalogue
    if backend == "fa3":
        return (8, _HOPPER)
    if backend == "cutedsl_mla":
        return (_BLACKWELL,)
    if backend == "trtllm_mla":
        return (_BLACKWELL, _WORKSTATION) if since(known, "0.5.6") else ()
    if backend == "trtllm_mha":
        everywhere = (_HOPPER, _BLACKWELL, _WORKSTATION)
        if since(known, "0.5.19") or (since(known, "0.5.10") and role.startswith("decode")):
            return everywhere
        return (_BLACKWELL,) if known else everywhere
    return ()


@launch_rule(
    "HW105",
    "attention-backend-not-on-this-gpu",
    source="sglang 0.5.1 to 0.5.23: attention_registry.py (fa3), server_args.py, attention_hook.py",
)
def attention_backend_not_on_this_gpu(launch: Launch) -> Iterator[Finding]:
    """The attention backend has no kernels for this GPU: the engine stops at its start, for fa3
    only after the weights are loaded. What counts is the architecture: sm_100 and sm_120 are both
    called Blackwell.

    Bad:
        # hardware: b200
        sglang serve --model-path m --attention-backend fa3

    Good:
        # hardware: h200
        sglang serve --model-path m --attention-backend fa3
    """
    major = _major(launch)
    for role in _ROLES:
        option, backend = launch.option(role), launch.text(role)
        if option is None or backend is None or major is None:
            continue
        served = _served(backend, role, launch)
        if served and major not in served:
            assert launch.hardware is not None
            names = ", ".join(f"sm_{wanted}x" for wanted in served)
            other = "fa3" if major == _HOPPER else "trtllm_mha or flashinfer"
            yield Finding(
                launch.path(option),
                f"{launch.said(option)} {backend} runs on {names}; {launch.hardware.name} is "
                f"{launch.hardware.arch}",
                f"leave it out, or use {other if major != _WORKSTATION else 'flashinfer'}",
            )


@launch_rule(
    "HW106",
    "vision-backend-not-on-this-gpu",
    source="sglang 0.5.4 to 0.5.23: layers/attention/vision.py; sglang issue 12360",
)
def vision_backend_not_on_this_gpu(launch: Launch) -> Iterator[Finding]:
    """The vision tower has an attention backend of its own, and fa3 is refused on Blackwell
    whatever --attention-backend says.

    Bad:
        # hardware: b200
        sglang serve --model-path m --mm-attention-backend fa3

    Good:
        # hardware: b200
        sglang serve --model-path m --mm-attention-backend triton_attn
    """
    option, major = launch.option("mm-attention-backend"), _major(launch)
    if option is None or launch.text("mm-attention-backend") != "fa3" or major is None:
        return
    if major >= _BLACKWELL:
        assert launch.hardware is not None
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} fa3 is refused on {launch.hardware.arch} "
            f"({launch.hardware.name})",
            "set --mm-attention-backend to triton_attn, or leave it out",
        )


@launch_rule(
    "HW107",
    "kv-storage-not-on-this-gpu",
    source="sglang 0.5.17: server_args.py; 0.5.19 to 0.5.23: arg_groups/kv_cache_hook.py",
)
def kv_storage_not_on_this_gpu(launch: Launch) -> Iterator[Finding]:
    """The KV cache is to be stored in a format that this GPU does not compute with.

    Bad:
        # hardware: h200
        sglang serve --model-path m --kv-cache-dtype nvfp4

    Good:
        # hardware: b200
        sglang serve --model-path m --kv-cache-dtype nvfp4
    """
    option, stored, major = (
        launch.option("kv-cache-dtype"),
        launch.text("kv-cache-dtype"),
        _major(launch),
    )
    if option is None or major is None or stored not in ("mxfp8", "nvfp4"):
        return
    if since(launch.catalogue, "0.5.17") and major < _BLACKWELL:
        assert launch.hardware is not None
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {stored} wants Blackwell; {launch.hardware.name} is "
            f"{launch.hardware.arch}",
            "set --kv-cache-dtype to fp8_e4m3",
        )


@launch_rule(
    "ENG303",
    "kv-storage-changes-the-attention-backend",
    source="sglang 0.5.5 to 0.5.23: server_args.py, _attention_backend_fa3_fp8_fallback; "
    "sglang issue 18550",
)
def kv_storage_changes_the_attention_backend(launch: Launch) -> Iterator[Finding]:
    """fa3 reads fp8_e4m3 alone: with fp8_e5m2 the engine runs Triton instead, after one line in
    the log.

    Bad:
        sglang serve --model-path m --attention-backend fa3 --kv-cache-dtype fp8_e5m2

    Good:
        sglang serve --model-path m --attention-backend fa3 --kv-cache-dtype fp8_e4m3
    """
    option = launch.option("attention-backend")
    if option is None or launch.text("attention-backend") != "fa3":
        return
    if launch.text("kv-cache-dtype") == "fp8_e5m2" and not before(launch.catalogue, "0.5.5"):
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} fa3 with --kv-cache-dtype fp8_e5m2 runs Triton: fa3 reads "
            "fp8_e4m3 only",
            "set --kv-cache-dtype to fp8_e4m3, or --attention-backend to triton",
        )


def _page_backends(launch: Launch) -> Iterator[str]:
    """Backends whose page sizes the engine enforces in this launch."""
    for role in (*_ROLES, "speculative-draft-attention-backend"):
        backend = launch.text(role)
        draft_or_prefill = role != "attention-backend" and not role.startswith("decode")
        # Of the prefill and the draft backend only these force a page size.
        if backend and (not draft_or_prefill or backend in ("trtllm_mha", "hpc_ops")):
            yield backend


@launch_rule(
    "ENG304",
    "page-size-replaced-by-the-backend",
    severity="warning",
    source="sglang 0.5.5 to 0.5.23: _mla_backend_page_constraints, _fa4_page_constraint; "
    "sglang issue 28297",
)
def page_size_replaced_by_the_backend(launch: Launch) -> Iterator[Finding]:
    """The backend works with certain page sizes only; with another the engine takes its own and
    warns once. Prefix reuse then goes by the larger page.

    Bad:
        # hardware: b200
        sglang serve --model-path m --attention-backend trtllm_mha --page-size 1

    Good:
        # hardware: b200
        sglang serve --model-path m --attention-backend trtllm_mha --page-size 64
    """
    option, page = launch.option("page-size"), launch.integer("page-size")
    if option is None or page is None:
        return
    for backend in dict.fromkeys(_page_backends(launch)):
        kept = _PAGES.get(backend, ())
        if backend == "trtllm_mha" and since(launch.catalogue, "0.5.17"):
            kept = (*kept, 128)
        if kept and page not in kept:
            yield Finding(
                launch.path(option),
                f"{launch.said(option)} {page} becomes 64: {backend} works with "
                f"{', '.join(map(str, kept))}",
                f"set --page-size to {kept[-1] if page > kept[-1] else kept[0]}",
            )
    yield from _flash_attention_four(launch, page)


def _flash_attention_four(launch: Launch, page: int) -> Iterator[Finding]:
    """fa4 on sm_100 and sm_103, where the model is none with latent attention."""
    option, option_fa4 = launch.option("page-size"), None
    for role in _ROLES:
        option_fa4 = option_fa4 or (launch.option(role) if launch.text(role) == "fa4" else None)
    if option is None or option_fa4 is None or _major(launch) != _BLACKWELL or page == 128:
        return
    tree = (launch.integer("speculative-eagle-topk") or 0) > 1
    latent = launch.checkpoint is not None and launch.checkpoint.latent_attention
    if before(launch.catalogue, "0.5.10") or tree or latent:
        return
    assert launch.hardware is not None
    yield Finding(
        launch.path(option),
        f"{launch.said(option)} {page} becomes 128: fa4 on {launch.hardware.arch} works with 128, "
        "unless the model has latent attention (MLA)",
        "set --page-size to 128",
    )
