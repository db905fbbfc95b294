"""The shipped entries: every file loads, every reference exists, and the facts are as published."""

from __future__ import annotations

import re

import pytest

from configurator.content import FOLDERS, ROOT, Library
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.resolve import resolve
from configurator.schema.content import Entry, From, Kernel

LIBRARY = Library()
ENTRY_KINDS = ("hardware", "model", "engine", "kernel", "measurement")

HARDWARE = [
    "b200", "cpu", "dgx-spark", "dgx-station-gb300", "gb300-nvl72", "h200", "hgx-b300",
    "rtx-pro-6000",
]  # fmt: skip
MODELS = [
    "ling-3.0-flash-dspark", "ling-3.0-flash-fp4", "muse-spark-open-dflash2",
    "muse-spark-open-dflash2-article", "muse-spark-open-nvfp4", "qwen3-8b",
]  # fmt: skip
ENGINES = ["ling-v3-814d2d16-patched", "ling-v3-mxfp4-humming", "sglang-0.5.17", "sglang-0.5.23"]
KERNELS = [
    "decode-cuda-graphs", "dflash", "dspark", "flashinfer-mxfp4-moe", "fp32-lm-head",
    "fp8-kv-cache", "fp8-lm-head", "humming-mxfp4-moe", "lm-head-shared", "nextn-mtp",
    "nvidia-megakernel", "sgl-muse-mega",
]  # fmt: skip
DEPLOYMENTS = [
    "ling-3.0-flash-spark", "ling-3.0-flash-spark-baseline", "ling-3.0-flash-spark-dspark",
    "ling-3.0-flash-spark-plugin", "ling-3.0-flash-spark-upstream", "muse-spark-open-gb300x8",
    "muse-spark-open-gb300x8-tp8", "muse-spark-open-paper",
]  # fmt: skip
PROBES = {
    "server-ready", "decode-cuda-graphs", "moe-runner", "attention-backend", "kv-cache-dtype",
    "fp8-weights", "fp8-lm-head", "lm-head-shared", "draft-used", "draft-tokens",
    "speculative-acceptance", "nvidia-megakernel", "moe-activations",
}  # fmt: skip
WITHOUT_EVIDENCE = {"fp32-lm-head", "sgl-muse-mega"}
"""Kernels of which an engine shows nothing, and which say so in a comment."""


def entry(kind: str, name: str) -> Entry:
    found: Entry = getattr(LIBRARY, kind)(name)
    return found


def kernels() -> list[Kernel]:
    return [LIBRARY.kernel(name) for name in LIBRARY.names("kernel")]


def deployment(name: str) -> Deployment:
    profile, layers = LIBRARY.profile(name)
    return resolve(profile, layers, LIBRARY)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("hardware", HARDWARE),
        ("model", MODELS),
        ("engine", ENGINES),
        ("kernel", KERNELS),
        ("deployment", DEPLOYMENTS),
    ],
)
def test_these_entries_are_shipped(kind: str, names: list[str]) -> None:
    assert set(names) <= set(LIBRARY.names(kind))


def test_no_stray_file_lies_in_a_content_folder() -> None:
    for folder in FOLDERS.values():
        unknown = [
            path.name
            for path in (ROOT / folder).iterdir()
            if path.is_file() and path.suffix not in {".yaml", ".py", ".md"}
        ]
        assert unknown == []


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ENTRY_KINDS for name in LIBRARY.names(kind)]
)
def test_every_entry_loads_and_names_its_sources(kind: str, name: str) -> None:
    found = entry(kind, name)
    assert found.name == name
    assert found.sources


def test_a_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfiguratorError) as caught:
        LIBRARY.kernel("humming-mxfp4")
    assert caught.value.problems[0].code == "REF001"
    assert "humming-mxfp4-moe" in caught.value.problems[0].remedy


@pytest.mark.parametrize("name", LIBRARY.names("model"))
def test_drafts_and_targets_fit_each_other(name: str) -> None:
    model = LIBRARY.model(name)
    assert (model.role == "draft") == (model.draft is not None)
    if name == "unspecified":
        assert (model.parameters_b, model.context, model.layers) == (None, None, None)
        return
    if model.draft is None:
        assert model.parameters_b is not None
        assert sum(kind.layers for kind in model.attention) == model.layers
        return
    for target in model.draft.targets:
        assert LIBRARY.model(target).role == "target"
        if model.lm_head_from_target:
            assert LIBRARY.model(target).hidden_size == model.hidden_size
            assert LIBRARY.model(target).vocab_size == model.vocab_size


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel.name)
def test_what_a_kernel_refers_to_exists(kernel: Kernel) -> None:
    known = LIBRARY.names("kernel")
    assert set(kernel.excludes) <= set(known)
    assert set(kernel.needs.with_any) <= set(known)
    for other in kernel.excludes:
        assert kernel.name in LIBRARY.kernel(other).excludes, "exclusion holds both ways"
    for wanted in (*kernel.args.values(), *kernel.env.values()):
        if isinstance(wanted, From):
            assert (wanted.option in kernel.options) != (wanted.draft is not None)
    for evidence in kernel.evidence:
        assert evidence.probe in PROBES
        assert evidence.value_option is None or evidence.value_option in kernel.options


@pytest.mark.parametrize("kernel", kernels(), ids=lambda kernel: kernel.name)
def test_every_engine_answers_what_a_kernel_asks(kernel: Kernel) -> None:
    for engine in map(LIBRARY.engine, LIBRARY.names("engine")):
        assert set(kernel.needs.facts) <= set(engine.facts), engine.name


def test_only_kernels_that_show_nothing_have_no_evidence() -> None:
    assert {kernel.name for kernel in kernels() if not kernel.evidence} == WITHOUT_EVIDENCE


def test_the_first_evidence_of_a_kernel_carries_its_name() -> None:
    for kernel in kernels():
        if kernel.evidence:
            assert kernel.evidence[0].mechanism == kernel.name


def test_alternatives_that_name_a_profile_name_one_that_exists() -> None:
    for kernel in kernels():
        for text in kernel.alternatives:
            if ": profile " in text:
                assert text.rpartition(": profile ")[2] in LIBRARY.names("deployment")


@pytest.mark.parametrize("name", LIBRARY.names("deployment"))
def test_every_deployment_resolves(name: str) -> None:
    resolved = deployment(name)
    assert resolved.name == name
    assert resolved.profile.description
    assert resolved.layers.idle_nulls == ()
    assert set(resolved.profile.claims) <= {published.id for published in resolved.claims}


@pytest.mark.parametrize(
    ("name", "per_host", "arch", "sms", "memory_gb"),
    [
        ("gb300-nvl72", 4, "sm_103", 152, 288),
        ("hgx-b300", 8, "sm_103", 148, 288),
        ("b200", 8, "sm_100", 148, 180),
        ("h200", 8, "sm_90", 132, 141),
        ("rtx-pro-6000", 8, "sm_120", 188, 96),
        ("dgx-spark", 1, "sm_121", 48, 128),
        ("dgx-station-gb300", 1, "sm_103", None, 269.2),
        ("cpu", 1, "cpu", None, 64),
    ],
)
def test_hardware_facts(
    name: str, per_host: int, arch: str, sms: int | None, memory_gb: float
) -> None:
    hardware = LIBRARY.hardware(name)
    assert (hardware.gpus_per_host, hardware.arch) == (per_host, arch)
    assert (hardware.sms, hardware.memory_gb) == (sms, memory_gb)


def test_a_gb300_rack_differs_from_what_resembles_it() -> None:
    rack = LIBRARY.hardware("gb300-nvl72")
    assert (rack.product, rack.nvlink_domain_gpus) == ("NVIDIA GB300", 72)
    assert rack.multi_host is not None
    assert rack.multi_host.env == {"NCCL_MNNVL_ENABLE": "1", "NCCL_CUMEM_ENABLE": "1"}
    assert any("UP" in text for text in rack.multi_host.requires)
    assert LIBRARY.hardware("hgx-b300").product != rack.product
    assert LIBRARY.hardware("dgx-station-gb300").nvlink_domain_gpus == 1


def test_spark_shares_its_memory() -> None:
    spark = LIBRARY.hardware("dgx-spark")
    assert spark.unified_memory
    assert (spark.usable_gib, spark.bandwidth_gb_s) == (121, 273)


def test_model_facts() -> None:
    muse = LIBRARY.model("muse-spark-open-nvfp4")
    assert (muse.layers, muse.hidden_size, muse.weights_gb) == (62, 8192, 533)
    assert [(a.kind, a.layers) for a in muse.attention] == [("sliding", 46), ("full", 16)]
    ling = LIBRARY.model("ling-3.0-flash-fp4")
    assert ling.quantization.model_dump() == {
        "experts": "mxfp4", "dense": "fp8", "lm_head": "bf16", "block": 128, "expert_layers": None,
    }  # fmt: skip
    assert (ling.context, ling.nextn_layers, ling.parsers.tool_call) == (262144, 1, "ling3")


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("muse-spark-open-dflash2", 8),
        ("muse-spark-open-dflash2-article", 16),
        ("ling-3.0-flash-dspark", 9),
    ],
)
def test_verify_widths_of_drafts(name: str, width: int) -> None:
    draft = LIBRARY.model(name).draft
    assert draft is not None
    assert draft.verify_width == width


@pytest.mark.parametrize(
    ("build", "head", "megakernel", "sharing"),
    [
        ("sglang-0.5.17", "no", "no", None),
        ("sglang-0.5.23", "no", "yes", "weight"),
        ("ling-v3-mxfp4-humming", "yes", "unknown", "unknown"),
        ("ling-v3-814d2d16-patched", "yes", "unknown", "module"),
    ],
)
def test_engine_facts(build: str, head: str, megakernel: str, sharing: str | None) -> None:
    engine = LIBRARY.engine(build)
    assert engine.facts["online-fp8-lm-head"] == head
    assert engine.facts["nvidia-megakernel-flag"] == megakernel
    lists = engine.lm_head_sharing.model_dump()
    holding = [key for key, names in lists.items() if "BailingMoeV3ForCausalLM" in names]
    assert holding == ([sharing] if sharing else [])


def test_only_the_branch_and_the_patch_have_the_variable_of_the_fp8_head() -> None:
    variable = next(iter(LIBRARY.kernel("fp8-lm-head").env))
    having = [n for n in LIBRARY.names("engine") if variable in LIBRARY.engine(n).adds.env]
    assert variable == "SGLANG_ENABLE_FP8_LM_HEAD"
    assert having == ["ling-v3-814d2d16-patched", "ling-v3-mxfp4-humming"]


def test_the_megakernel_covers_muse_at_tensor_4_on_gb300_only() -> None:
    kernel = LIBRARY.kernel("nvidia-megakernel")
    rows = [r for r in kernel.coverage if r.architecture == "MuseSpark1xOmniForCausalLM"]
    assert len(rows) == 1
    assert (rows[0].products, rows[0].tensor) == (["NVIDIA GB300"], [4])
    assert (rows[0].covers, rows[0].algorithms) == (["verify"], ["DFLASH"])
    assert kernel.evidence[0].proof_rung == "captured"


def test_two_replicas_are_one_tray_each() -> None:
    resolved = deployment("muse-spark-open-gb300x8")
    engines = [p for p in resolved.processes if p.role == "engine"]
    assert [(p.replica, p.rank, p.host) for p in engines] == [(0, 0, 0), (1, 0, 1)]
    assert "--nnodes" not in engines[0].argv
    assert resolved.arg("ep-size") == 1
    assert resolved.arg("enable-nvidia-megakernel") is True
    assert [p.role for p in resolved.processes].count("router") == 1


def test_tensor_8_is_one_instance_over_two_hosts() -> None:
    resolved = deployment("muse-spark-open-gb300x8-tp8")
    assert (resolved.hosts, resolved.hosts_per_replica) == (2, 2)
    assert resolved.arg("enable-nvidia-megakernel") is None
    assert resolved.env["NCCL_MNNVL_ENABLE"].value == "1"
    assert [p.role for p in resolved.processes] == ["engine", "engine"]


def test_every_muse_deployment_is_labelled_unverified() -> None:
    for name in LIBRARY.names("deployment"):
        if name.startswith("muse-"):
            assert LIBRARY.profile(name)[0].status == "unverified"


def test_the_published_setting_asks_for_what_is_not_public() -> None:
    resolved = deployment("muse-spark-open-paper")
    assert LIBRARY.kernel("sgl-muse-mega").activation == "unpublished"
    assert {"nvidia-megakernel", "sgl-muse-mega"} <= set(resolved.mechanisms)
    assert resolved.mechanisms["nvidia-megakernel"].options["cover"] == "verify+draft"
    assert resolved.arg("speculative-num-draft-tokens") == 16
    assert resolved.arg("speculative-eagle-topk") != 1
    assert resolved.profile.claims == ["muse-megakernel-decode-1109"]


def test_the_three_optimizations_of_ling() -> None:
    resolved = deployment("ling-3.0-flash-spark")
    assert set(resolved.mechanisms) == {
        "decode-cuda-graphs", "humming-mxfp4-moe", "fp8-lm-head", "nextn-mtp",
    }  # fmt: skip
    assert resolved.arg("moe-runner-backend") == "humming"
    assert resolved.arg("enable-fp32-lm-head") is None
    assert resolved.env["SGLANG_ENABLE_FP8_LM_HEAD"].value == "1"
    assert resolved.arg("speculative-draft-model-path") == resolved.arg("model-path")
    assert "lm-head-shared" in [e.mechanism for e in resolved.expectations]


def test_mistakes_of_the_published_notebook_are_corrected_and_named() -> None:
    resolved = deployment("ling-3.0-flash-spark")
    assert resolved.arg("reasoning-parser") == "ling3"
    assert resolved.arg("json-model-override-args") is None
    assert "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN" not in resolved.env
    key = resolved.profile.serving.api_key
    assert key is not None
    assert key.env == "LING_API_KEY"
    published = " ".join(d.published for d in resolved.profile.deviations)
    for mistake in ("qwen25", "YaRN", "API key", "OVERWRITE_LONGER_CONTEXT_LEN"):
        assert mistake in published


def test_the_baseline_does_not_speculate() -> None:
    resolved = deployment("ling-3.0-flash-spark-baseline")
    assert resolved.speculation is None
    assert resolved.arg("moe-runner-backend") == "flashinfer_mxfp4"
    assert resolved.arg("enable-fp32-lm-head") is True
    assert "SGLANG_ENABLE_FP8_LM_HEAD" not in resolved.env


def test_the_dspark_variant_replays_a_window_that_fits() -> None:
    resolved = deployment("ling-3.0-flash-spark-dspark")
    draft = LIBRARY.model("ling-3.0-flash-dspark").draft
    length = resolved.arg("linear-replayssm-cache-len")
    assert draft is not None
    assert draft.verify_width is not None
    assert isinstance(length, int)
    assert length >= 2 * draft.verify_width
    assert length & (length - 1) == 0
    assert resolved.arg("mem-fraction-static") == 0.75


def test_upstream_is_the_same_wish_on_a_release() -> None:
    wanted, upstream = (
        deployment("ling-3.0-flash-spark"),
        deployment("ling-3.0-flash-spark-upstream"),
    )
    assert upstream.engine.name == "sglang-0.5.23"
    assert upstream.profile.optimizations == wanted.profile.optimizations
    assert list(upstream.args) == list(wanted.args)


def test_entries_hold_no_home_directories() -> None:
    for folder in FOLDERS.values():
        for path in (ROOT / folder).glob("*.yaml"):
            assert not re.search(r"/(home|root|Users)/|~/models", path.read_text("utf-8")), (
                path.name
            )
