"""Kernels by family: the names of real traces, and a user's own families."""

from __future__ import annotations

from pathlib import Path

import pytest
from replicas import families

from configurator.content import Library
from configurator.errors import ConfiguratorError
from configurator.evidence.trace import read_trace
from configurator.evidence.trace_model import Kernel, Ran, TraceStep
from configurator.families import Families, shares_of

RECORDINGS = Path(__file__).parent / "fixtures" / "recordings"


@pytest.mark.parametrize(
    ("name", "family", "job", "dtype"),
    [
        ("nvjet_sm90_qqtst_256x8_128x6_2x1_v_bz_TNT", "gemm-fp8", "gemm", "fp8"),
        ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "gemm-bf16", "gemm", "bf16"),
        ("void cutlass::device_kernel<GemmUniversal>", "gemm-other", "gemm", ""),
        ("void cublasLt::splitKreduce_kernel<32, 16, int>", "gemm-reduce", "gemm-reduce", ""),
        ("_fp8_head_scales", "gemm-scales", "gemm-scales", ""),
        ("_fp8_head_maxima", "quantize", "quantize", ""),
        ("_fp8_head_input", "quantize", "quantize", ""),
        ("_matmul_kernel", "gemm-other", "gemm", ""),
        ("triton_tem_fused_mm_7", "gemm-other", "gemm", ""),
        ("triton_red_fused__to_copy_mm_3", "gemm-other", "gemm", ""),
        ("triton_per_fused_addmm_0", "gemm-other", "gemm", ""),
        ("triton_poi_fused_add_mul_comma_0", "elementwise", "other", ""),
        ("fused_moe_kernel", "moe-triton", "moe", ""),
        ("_matmul_ogs_NNN_bf16xbf16xbf16_16x256x64x1", "moe-triton-kernel", "moe", ""),
        ("void deep_gemm::sm90_bf16_gemm_impl<1>", "deep-gemm-bf16", "moe", "bf16"),
        ("void deep_gemm::sm90_fp8_gemm_1d2d_impl<1>", "deep-gemm-fp8", "moe", "fp8"),
        ("void deep_gemm::sm90_bf16<(deep_gemm::GemmType)1>", "moe-deep-gemm-bf16", "moe", "bf16"),
        ("void deep_gemm::sm90_fp8<1, (deep_gemm::GemmType)2>", "moe-deep-gemm-fp8", "moe", "fp8"),
        ("void deep_gemm::sm90_fp8<1, (deep_gemm::GemmType)0>", "deep-gemm-fp8", "moe", "fp8"),
        ("void cudaCoreGemm<__nv_fp8_e4m3, __nv_bfloat16, 1>", "gemm-fp8", "gemm", "fp8"),
        (
            "fmhaSm100fKernel_QkvE4m3OBfloat16HQk576HV512PagedKvDenseP64",
            "attention-trtllm-mla",
            "attention",
            "",
        ),
        (
            "fmhaSm100fKernel_QkvE4m3OBfloat16HQk576HV512PagedKvDenseStaticTokenSparseP1",
            "attention-sparse",
            "attention",
            "",
        ),
        ("fmhaSm100aKernel_QkvE4m3OE4m3H128PagedKvCausalP64", "attention-trtllm", "attention", ""),
        ("flash_fwd_splitkv_mla_fp8_sparse_kernel", "attention-sparse", "attention", ""),
        ("flash_fwd_splitkv_mla_kernel", "attention-flashmla", "attention", ""),
        ("void humming::kernel<1>", "moe-humming", "moe", ""),
        ("moe_align_block_size_kernel", "moe-routing", "moe-routing", ""),
        ("_fwd_grouped_kernel_stage1", "attention-triton", "attention", ""),
        ("flash_fwd_splitkv_gemm", "attention", "attention", ""),
        ("void flashinfer::norm::RMSNormKernel<8u>", "norm", "norm", ""),
        ("ncclDevKernel_AllReduce_Sum_bf16", "collective", "communication", ""),
        ("Memcpy DtoH (Device -> Pinned)", "copy", "copy", ""),
        ("void at::native::vectorized_elementwise_kernel<4>", "elementwise", "other", ""),
        ("nobody_knows_me", "other", "other", ""),
    ],
)
def test_names_of_kernels(name: str, family: str, job: str, dtype: str) -> None:
    found = families().of(name)
    assert (found.name, found.job, found.dtype) == (family, job, dtype)


def test_almost_all_of_real_traces_has_a_family() -> None:
    paths = [*RECORDINGS.rglob("*.trace.json.gz")]
    assert len(paths) > 20
    for path in paths:
        trace = read_trace(path)
        shares = shares_of((*trace.kernels, *trace.copies), families())
        unknown = sum(share.share for share in shares if share.family == "other")
        assert unknown < 0.02, path


def test_the_last_dense_gemm_is_the_head() -> None:
    names = ("nvjet_sm90_tst_8x64_", "nvjet_sm90_qqtst_256x8_", "splitKreduce", "fused_moe_kernel")
    ran = tuple(Ran(name, float(at), 1.0, 7) for at, name in enumerate(names))
    assert families().last_gemm(TraceStep("DECODE", 1, 1, 1, 4, ran)) == "nvjet_sm90_qqtst_256x8_"
    assert families().last_gemm(TraceStep("DECODE", 1, 1, 1, 4, ran[2:])) == ""


@pytest.mark.parametrize(
    ("after", "is_head"),
    [
        (["splitKreduce", "Memcpy DtoH", "ncclDevKernel_AllGather", "ArgMaxOps"], True),
        (["_fp8_head_scales", "ArgMaxOps"], True),
        (["void at::native::vectorized_elementwise_kernel<4>"], True),
        # A head of kernels that are not known, or are known for something else, is none of these.
        (["nobody_knows_me"], False),
        (["void deep_gemm::sm90_fp8<(deep_gemm::GemmType)0>"], False),
        (["fused_moe_kernel"], False),
        (["void flashinfer::norm::RMSNormKernel<8u>"], False),
    ],
)
def test_a_gemm_is_the_head_where_nothing_else_may_be(after: list[str], is_head: bool) -> None:
    names = ("nvjet_sm90_tst_8x64_", *after)
    ran = tuple(Ran(name, float(at), 1.0, 7) for at, name in enumerate(names))
    found = families().head_gemm(TraceStep("DECODE", 1, 1, 1, 4, ran))
    assert found == ("nvjet_sm90_tst_8x64_" if is_head else "")


def test_a_head_of_torch_compile_is_not_the_gemm_before_it() -> None:
    """Whose norm is fused with other things, so that no name tells it from what follows a head."""
    names = ("nvjet_sm90_qqtst_256x8_", "triton_red_fused_add_mean_mul_pow_rsqrt_1",
             "triton_tem_fused_mm_t_2", "ArgMaxOps")  # fmt: skip
    ran = tuple(Ran(name, float(at), 1.0, 7) for at, name in enumerate(names))
    assert families().head_gemm(TraceStep("DECODE", 1, 1, 1, 4, ran)) == "triton_tem_fused_mm_t_2"
    assert families().of("triton_tem_fused_mm_t_2").dtype == ""


def test_backends_that_are_known_by_their_kernels() -> None:
    assert families().knows("attention", "fa3")
    assert families().knows("moe", "humming")
    assert not families().knows("attention", "dsa")
    assert not families().knows("moe", "flashinfer_cutedsl")
    assert not families().knows("attention", "triton_kernel")


def test_shares_are_means_over_steps() -> None:
    kernels = (Kernel("fused_moe_kernel", 8, 30.0), Kernel("nvjet_sm90_tst_8", 4, 40.0))
    first, second = shares_of(kernels, families(), 4)
    assert (first.family, first.kernels, first.gpu_us, first.share) == ("moe-triton", 2, 60, 0.6)
    assert (second.family, second.kernels, second.gpu_us, second.share) == ("gemm-bf16", 1, 40, 0.4)
    assert shares_of((), families()) == []


KERNEL = """\
apiVersion: configurator/v1
kind: Kernel
name: mine
summary: A kernel of one's own
family: moe
status: experimental
trace:
  - {family: my-moe, job: moe, backends: [mine], patterns: ['^fused_moe_kernel_mine$']}
"""
FAMILIES = """\
apiVersion: configurator/v1
kind: KernelFamilies
name: ours
summary: Families of one's own
families:
  - {family: my-norm, job: norm, patterns: [RMSNorm]}
  - {family: my-humming, job: moe, patterns: ['^void humming::']}
"""


def test_families_of_ones_own_come_first(tmp_path: Path) -> None:
    (tmp_path / "kernels" / "families").mkdir(parents=True)
    (tmp_path / "kernels" / "mine.yaml").write_text(KERNEL)
    (tmp_path / "kernels" / "families" / "ours.yaml").write_text(FAMILIES)
    own = Families.of_content(Library([tmp_path]).families())
    assert own.of("fused_moe_kernel_mine").name == "my-moe"
    assert own.of("fused_moe_kernel").name == "moe-triton"
    assert own.of("flashinfer::norm::RMSNormKernel").name == "my-norm"
    # Before the family of a shipped mechanism too.
    assert own.of("void humming::kernel<1>").name == "my-humming"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("RMSNorm]", "'RMS(']", "SCH007"),
        ("[RMSNorm]", "[]", "SCH007"),
        ("job: norm, ", "", "SCH006"),
        ("job: norm", "job: norm, dtype: int3", "SCH007"),
    ],
)
def test_a_family_that_cannot_be_used(tmp_path: Path, old: str, new: str, code: str) -> None:
    (tmp_path / "kernels" / "families").mkdir(parents=True)
    path = tmp_path / "kernels" / "families" / "ours.yaml"
    path.write_text(FAMILIES.replace(old, new))
    with pytest.raises(ConfiguratorError) as raised:
        Library([tmp_path]).families()
    (problem,) = raised.value.problems
    assert problem.code == code
    assert str(problem.position).startswith(f"{path}:6:")
