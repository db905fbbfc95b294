"""The runner of the routed experts."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Deployment, Finding, Launch, launch_rule, rule

# Storage of the experts that a runner reads, where a wrong pair starts and then does nothing.
_READS = {
    "humming": ("mxfp4",),
    "flashinfer_mxfp4": ("mxfp4",),
    "marlin": ("mxfp4", "nvfp4", "int4", "fp8"),
}
_DEQUANT = "SGLANG_DSV4_FP4_DEQUANT"
# sglang 0.5.23 on a plain MXFP4 checkpoint: create_moe_runner ends in `else: pass` for the others.
_MXFP4 = ("auto", "triton", "triton_kernel", "marlin", "deep_gemm", "aiter", "flashinfer_mxfp4",
          "humming")  # fmt: skip


@rule("MOE101", "moe-runner-cannot-read-the-experts", source="sglang 0.5.23: fp8.py, unquant.py")
def moe_runner_cannot_read_the_experts(deployment: Deployment) -> Iterator[Finding]:
    """The runner does not read the experts' storage. `/server_info` still echoes its name: on
    unquantized experts every layer runs Triton, without a log line.

    Bad:
        extends: muse-spark-open-gb300x8
        extra: {args: {moe-runner-backend: humming}}

    Good:
        extends: ling-3.0-flash-spark
    """
    runner = deployment.args.get("moe-runner-backend")
    stored = deployment.model.quantization.experts
    if runner is None or deployment.model.moe is None or runner.origin.startswith("kernel"):
        return
    reads = _READS.get(str(runner.value))
    refused = stored == "mxfp4" and str(runner.value) not in _MXFP4
    if refused or (reads and stored not in reads):
        fitting = _MXFP4 if stored == "mxfp4" else ("auto",)
        yield Finding(
            runner.path,
            f"the runner {runner.value} does not read {stored or 'unquantized'} experts of "
            f"{deployment.model.name}",
            f"use one of {', '.join(fitting)}",
        )


@rule("MOE102", "moe-runner-on-a-dense-model", severity="warning", source="sglang 0.5.23")
def moe_runner_on_a_dense_model(deployment: Deployment) -> Iterator[Finding]:
    """A dense model has no experts: the flag is echoed and has no effect.

    Bad:
        engine: {build: sglang-0.5.23}
        hardware: {name: h200, gpus: 1}
        model: {name: qwen3-8b}
        extra: {args: {moe-runner-backend: triton}}

    Good:
        engine: {build: sglang-0.5.23}
        hardware: {name: h200, gpus: 1}
        model: {name: qwen3-8b}
    """
    runner = deployment.args.get("moe-runner-backend")
    if runner is not None and deployment.model.described and deployment.model.moe is None:
        yield Finding(
            runner.path,
            f"{deployment.model.name} has no experts: --moe-runner-backend {runner.value} has no "
            "effect",
            "remove it",
        )


@rule(
    "MOE103",
    "runner-unproven-on-this-gpu",
    severity="info",
    source="bug reports for sm_121; sgl-project/sglang 36364",
)
def runner_unproven_on_this_gpu(deployment: Deployment) -> Iterator[Finding]:
    """FlashInfer's MXFP4 experts on sm_121: accepted, but only a real request proves the kernel.

    Bad:
        extends: ling-3.0-flash-spark-baseline

    Good:
        extends: ling-3.0-flash-spark
    """
    runner = deployment.args.get("moe-runner-backend")
    if runner and runner.value == "flashinfer_mxfp4" and deployment.hardware.arch == "sm_121":
        yield Finding(
            runner.path,
            "flashinfer_mxfp4 is accepted on sm_121; whether its kernels run and are right shows "
            "only in a request (SwigluStep clamp, sglang 36364)",
            "let a check send requests (no --passive), or use humming or marlin",
        )


@launch_rule(
    "MOE112",
    "command-with-a-runner-unproven-on-this-gpu",
    severity="warning",
    source="flashinfer issue 5238: kernels of sm_100 are mostly not usable on 12.1",
)
def command_with_a_runner_unproven_on_this_gpu(launch: Launch) -> Iterator[Finding]:
    """FlashInfer's MXFP4 experts on sm_121: the engine accepts them, and a launch command has
    nothing that would send the request which proves them. MOE103 says it of profiles.

    Bad:
        # hardware: dgx-spark
        sglang serve --model-path m --moe-runner-backend flashinfer_mxfp4

    Good:
        # hardware: dgx-spark
        sglang serve --model-path m --moe-runner-backend marlin
    """
    option, runner = launch.option("moe-runner-backend"), launch.text("moe-runner-backend")
    gpu = launch.hardware.arch if launch.hardware else None
    if option is None or runner != "flashinfer_mxfp4" or gpu != "sm_121":
        return
    if not launch.words[option.index].origin:
        yield Finding(
            launch.path(option),
            f"{launch.said(option)} {runner} on {gpu}: prebuilt kernels were reported to end in "
            "'no kernel image is available'",
            "set --moe-runner-backend to marlin or triton, or prove it with requests",
        )


@launch_rule(
    "MOE104",
    "activation-precision-not-stated",
    severity="info",
    source="sglang 0.5.16 to 0.5.23: SGLANG_HUMMING_INPUT_QUANT_CONFIG",
)
def activation_precision_not_stated(launch: Launch) -> Iterator[Finding]:
    """Humming alone computes with 16-bit activations (W4A16); 8-bit ones need a variable.

    Bad:
        extends: ling-3.0-flash-spark

    Good:
        extends: ling-3.0-flash-spark
        extra: {env: {SGLANG_HUMMING_INPUT_QUANT_CONFIG: '{"dtype": "float8e4m3"}'}}

    Bad:
        sglang serve --model-path m --moe-runner-backend humming
    """
    option, runner = launch.option("moe-runner-backend"), launch.text("moe-runner-backend")
    stated = "SGLANG_HUMMING_INPUT_QUANT_CONFIG" in launch.env
    if option is not None and runner == "humming" and not stated:
        yield Finding(
            launch.path(option),
            "humming without SGLANG_HUMMING_INPUT_QUANT_CONFIG computes W4A16, while the "
            "FlashInfer baseline is called W4A8: their accuracy and speed are not like for like",
            "read it from the running engine (verdict moe-activations), or set the variable",
        )


@launch_rule(
    "MOE114",
    "fp4-runner-with-experts-turned-to-fp8",
    source="sglang 0.5.23: fp8.py, 'is not compatible with SGLANG_DSV4_FP4_DEQUANT=1'",
)
def fp4_runner_with_experts_turned_to_fp8(launch: Launch) -> Iterator[Finding]:
    """The variable turns MXFP4 experts to FP8 while loading, and the engine then takes no other
    runner than its own choice: an assertion ends the start.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {env: {SGLANG_DSV4_FP4_DEQUANT: 1}}

    Good:
        extends: ling-3.0-flash-spark
        extra: {env: {SGLANG_DSV4_FP4_DEQUANT: 0}}

    Bad:
        SGLANG_DSV4_FP4_DEQUANT=1 sglang serve --model-path m --moe-runner-backend humming
    """
    option, runner = launch.option("moe-runner-backend"), launch.text("moe-runner-backend")
    variable = launch.env.get(_DEQUANT)
    if option is None or variable is None or runner not in ("humming", "flashinfer_mxfp4"):
        return
    if (variable.value or "").lower() in ("1", "true", "yes", "y"):
        yield Finding(
            variable.path,
            f"{_DEQUANT}={variable.value} turns MXFP4 experts to FP8; {launch.said(option)} "
            f"{runner} is refused then",
            f"remove {_DEQUANT}, or --moe-runner-backend",
        )


@rule(
    "MOE113",
    "experts-that-are-kept-whole-are-split",
    source="sglang 0.5.23: models/muse_spark.py, 'requires expert TP1; use EP equal to TP'",
)
def experts_that_are_kept_whole_are_split(deployment: Deployment) -> Iterator[Finding]:
    """The engine's code for this model keeps each expert whole on one rank: with an expert
    parallel size other than the tensor parallel size it stops before the weights load.

    Bad:
        extends: muse-spark-open-gb300x8-tp8
        topology: {expert: 1}

    Good:
        extends: muse-spark-open-gb300x8-tp8
    """
    topology, moe = deployment.profile.topology, deployment.model.moe
    if moe is None or not moe.whole_experts or topology.expert == topology.tensor:
        return
    # MEGA112 weighs this against what the megakernel refuses.
    if not deployment.of_family("megakernel"):
        yield Finding(
            ("topology", "expert"),
            f"{deployment.model.name} runs with whole experts on each rank, so with expert equal "
            f"to tensor; expert is {topology.expert} and tensor {topology.tensor}",
            f"set topology.expert to {topology.tensor}",
        )
