"""The FP8 head's plugin refuses before weights load, with every reason at once."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from plugins.stand_in_engine import PACKAGE, engine, scheduler

__all__ = ["engine"]
Engine = dict[str, ModuleType]
LOGITS = "sglang.srt.layers.logits_processor"


def reasons(**change: Any) -> list[str]:
    return list(import_module(f"{PACKAGE}.refusing").reasons_against(scheduler(**change)))


def config(**said: Any) -> Any:
    own = {"quantization": None, "joint_head_config": None}
    own = {name: said.pop(name, value) for name, value in own.items()}
    hf = SimpleNamespace(**{"tie_word_embeddings": False, **said})
    return SimpleNamespace(hf_config=hf, **own)


@pytest.mark.parametrize("algorithm", ["NONE", "EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"])
def test_nothing_is_said_against_what_it_serves(engine: Engine, algorithm: str) -> None:
    assert reasons(algorithm=algorithm) == []


@pytest.mark.parametrize("mode", ["off", None])
def test_no_cache_of_weights_is_no_reason(engine: Engine, mode: str | None) -> None:
    assert reasons(weight_cache_mode=mode) == []


def test_adapters_beside_the_head_are_no_reason(engine: Engine) -> None:
    assert reasons(lora_target_modules=["q_proj", "o_proj"]) == []


OTHERS = "past its method: use one of EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM"
TIED = "the model ties its LM head to the embedding: there is no head of its own to quantize"
STORED = "the checkpoint's LM head is quantized already (quantization_config.lm_head)"
JOINT = (
    "the checkpoint has joint_head_config.json: its joint schema head reads the LM head's weight "
    "past its method"
)
LOADING = "the weights load while graphs are captured: leave --startup-weight-load-mode out"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"enable_fp32_lm_head": True}, "--enable-fp32-lm-head asks for logits in float32"),
        ({"speculative_token_map": "/m"}, "--speculative-token-map gives the draft some rows"),
        ({"enable_dp_lm_head": True}, "--enable-dp-lm-head divides the head otherwise"),
        ({"enable_tp_lm_head_all_to_all": True}, "--enable-tp-lm-head-all-to-all exchanges"),
        ({"enable_memory_saver": True}, "--enable-memory-saver keeps weights in memory of its own"),
        ({"enable_torch_compile": True}, "--enable-torch-compile compiles the head"),
        (
            {"enable_deterministic_inference": True},
            "--enable-deterministic-inference promises logits that are the same in any batch",
        ),
        (
            {"enable_nvidia_megakernel": True},
            "--enable-nvidia-megakernel may read the head past its",
        ),
        (
            {"remote_instance_weight_loader_start_seed_via_transfer_engine": True},
            "--remote-instance-weight-loader-start-seed-via-transfer-engine hands the memory of",
        ),
        ({"weight_cache_mode": "client"}, "--weight-cache-mode is client: its weights belong to a"),
        ({"torchao_config": "int8wo"}, "--torchao-config quantizes layers after loading too"),
        ({"pp_size": 2}, "--pp-size is 2: only its last stage has the head; set it to 1"),
        ({"lora_target_modules": ["q_proj", "lm_head"]}, "--lora-target-modules has lm_head: "),
        ({"lora_target_modules": {"all"}}, "--lora-target-modules has all: leave the LM head out"),
        ({"startup_weight_load_mode": "overlap"}, LOADING),
        ({"enable_multi_layer_eagle": True}, "--enable-multi-layer-eagle was not tried with it"),
        ({"algorithm": "DSPARK"}, f"drafts of DSPARK read the head's weight {OTHERS}"),
        ({"algorithm": "DFLASH"}, f"drafts of DFLASH read the head's weight {OTHERS}"),
        ({"config": config(tie_word_embeddings=True)}, TIED),
        (
            {"config": config(enable_lm_head_fp32=True)},
            "the model's config asks for a float32 head (enable_lm_head_fp32)",
        ),
        ({"config": config(quantization_config={"lm_head": True})}, STORED),
        ({"config": config(quantization="gguf")}, "the checkpoint is GGUF, whose LM head is"),
        ({"config": config(joint_head_config={"rank": 8})}, JOINT),
        ({"device": "xpu"}, "device xpu is not handled: use an NVIDIA GPU, or a CPU to try it"),
    ],
)
def test_every_reason_alone(engine: Engine, change: dict[str, Any], reason: str) -> None:
    (found,) = reasons(**change)
    assert found.startswith(reason)


def test_all_reasons_come_at_once(engine: Engine) -> None:
    found = reasons(
        algorithm="DSPARK", pp_size=2, enable_fp32_lm_head=True,
        config=config(tie_word_embeddings=True), device="xpu",
    )  # fmt: skip
    words = ("--enable-fp32", "--pp-size", "DSPARK", "ties", "xpu")
    assert [word in text for word, text in zip(words, found, strict=True)] == [True] * 5


def test_what_the_engine_resolved_counts(engine: Engine) -> None:
    context = SimpleNamespace(resolved_server_args_dict=lambda: {"enable_fp32_lm_head": True})
    vars(engine["sglang.srt.runtime_context"])["get_context"] = lambda: context
    assert [text.split()[0] for text in reasons()] == ["--enable-fp32-lm-head"]


@pytest.mark.parametrize(("capability", "count"), [((8, 0), 1), ((8, 9), 0), ((9, 0), 0)])
def test_a_gpu_must_multiply_fp8(engine: Engine, capability: tuple[int, int], count: int) -> None:
    vars(engine["torch"])["cuda"] = SimpleNamespace(
        is_available=lambda: True, get_device_capability=lambda: capability
    )
    found = reasons(device=None)
    assert len(found) == count
    assert all("the GPU is sm_80: FP8 needs sm_89 or newer" in text for text in found)


def test_a_rocm_build_and_a_torch_of_old_are_refused(engine: Engine) -> None:
    torch = vars(engine["torch"])
    torch["version"] = SimpleNamespace(hip="6.2")
    assert "device cuda is not handled" in reasons(device="cuda")[0]
    torch["version"] = SimpleNamespace(hip=None)
    del torch["_scaled_mm"], torch["float8_e4m3fn"]
    found = reasons(device="cuda")
    assert ["float8_e4m3fn" in found[0], "_scaled_mm" in found[1]] == [True, True]


def test_an_argument_that_the_engine_lost_is_named(engine: Engine) -> None:
    made = scheduler()
    del made.server_args.speculative_token_map
    found = import_module(f"{PACKAGE}.refusing").reasons_against(made)
    assert found == ["the engine has no argument speculative_token_map, which must be looked at"]


def test_internals_that_are_missing_or_changed_are_named(engine: Engine) -> None:
    logits = vars(engine[LOGITS])
    del logits["LogitsProcessor"]
    logits["should_apply_lm_head_quant_method"] = lambda head: True
    found = reasons()
    assert f"{LOGITS}.should_apply_lm_head_quant_method takes (head)" in found[0]
    assert f"the engine has no {LOGITS}.LogitsProcessor._compute_lm_head" in found[1]
    assert len(found) == 3


def test_an_engine_that_would_not_call_the_method_is_refused(engine: Engine) -> None:
    vars(engine[LOGITS])["should_apply_lm_head_quant_method"] = lambda lm_head, quant_method: False
    assert reasons() == [f"{LOGITS} would not apply the method of an FP8 head"]


def test_a_refusal_comes_before_the_weights(engine: Engine) -> None:
    hooked = import_module(f"{PACKAGE}.hooked")
    loaded: list[str] = []
    with pytest.raises(RuntimeError) as caught:
        hooked.around_loading(lambda _: loaded.append("weights"), scheduler(pp_size=4))
    assert loaded == []
    assert str(caught.value) == (
        "configurator_fp8_head refuses this launch:\n"
        "  - --pp-size is 4: only its last stage has the head; set it to 1"
    )


def test_a_hook_that_the_engine_only_logged_is_a_reason(engine: Engine) -> None:
    """It goes on where a hook cannot be put in its place, another plugin's bad one for instance."""
    hooked = import_module(f"{PACKAGE}.hooked")
    registry = vars(engine["sglang.srt.plugins.hook_registry"])["HookRegistry"]
    ours, others = "engine.Scheduler.init_memory_pools", "engine.Other.run"
    registry._hooks.update({
        "engine.Scheduler.init_tp_model_worker": [("around", hooked.around_loading, None)],
        ours: [("before", print, None), ("around", hooked.around_dividing, None)],
        others: [("after", print, None)],
    })  # fmt: skip
    registry._patched.add("engine.Scheduler.init_tp_model_worker")
    loaded: list[str] = []
    with pytest.raises(RuntimeError) as caught:
        hooked.around_loading(lambda _: loaded.append("weights"), scheduler())
    assert (loaded, str(caught.value).count("\n")) == ([], 1)
    assert f"the engine did not hook {ours}: its log says why" in str(caught.value)


def test_new_weights_are_refused_before_any_is_written(engine: Engine) -> None:
    hooked = import_module(f"{PACKAGE}.hooked")
    written: list[Any] = []

    def update(_updater: Any, *arguments: Any, **options: Any) -> tuple[bool, str]:
        written.append((arguments, options))
        return True, "done"

    succeeded, message = hooked.around_updating(update, object(), ["lm_head"], load_format="direct")
    assert (succeeded, written) == (False, [])
    assert message.startswith("configurator_fp8_head: the LM head was quantized after its weights")
    filtered = {"weight_name_filter": None}
    assert hooked.around_updating(update, object(), "/model", "auto", **filtered)[0] is False


def test_experts_that_are_loaded_again_are_let_through(engine: Engine) -> None:
    hooked = import_module(f"{PACKAGE}.hooked")
    done = hooked.around_updating(
        lambda _updater, path, weight_name_filter: (True, path), object(), "/model",
        weight_name_filter=lambda name: "experts" in name,
    )  # fmt: skip
    assert done == (True, "/model")
