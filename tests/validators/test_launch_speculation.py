"""Arguments of speculative decoding in a launch: refused, replaced, ignored, or faked.

What is refused here was compared with the argument resolution of 0.5.23 itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from launches import launch

from configurator.checkpoint import Checkpoint
from configurator.loader import Validators

EAGLE = "--model-path m --speculative-algorithm EAGLE"
CHAIN = "--speculative-num-steps 3 --speculative-eagle-topk 1"
TREE = "--speculative-num-steps 3 --speculative-eagle-topk 4 --speculative-num-draft-tokens 8"
GROUPS = "--tp-size 4 --dp-size 4 --enable-dp-attention"


def said(
    validators: Validators, code: str, command: str, engine: str = "0.5.23",
    target: Checkpoint | None = None, draft: Checkpoint | None = None,
) -> list[str]:  # fmt: skip
    judged = launch(command, engine=engine, checkpoint=target, draft=draft)
    return [f"{found.message}; {found.remedy}" for found in validators.rules[code].check(judged)]


@pytest.mark.parametrize(
    ("name", "engine", "fact"),
    [
        ("EAGEL", "0.5.23", "did you mean 'EAGLE'"),
        ("UNO", "0.5.19", "it came with 0.5.20"),
        ("UNO", "0.5.20", None),
        ("DSPARK", "0.5.15", "it came with 0.5.16"),
        ("dspark", "0.5.16", None),
        ("nextn", "0.5.23", None),
        # This release has choices: the parser's own refusal is another rule's.
        ("EAGEL", "0.5.9", None),
    ],
)
def test_algorithms_by_release(
    name: str, engine: str, fact: str | None, validators: Validators
) -> None:
    found = said(validators, "SPEC117", f"--model-path m --speculative-algorithm {name}", engine)
    assert len(found) == (fact is not None)
    assert fact is None or fact in found[0]


def test_an_algorithm_may_come_from_a_plugin(validators: Validators) -> None:
    command = "SGLANG_PLUGINS=ours sglang serve --model-path m --speculative-algorithm OURS"
    assert said(validators, "SPEC117", command) == []


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("--speculative-num-steps 3", "--speculative-eagle-topk and"),
        ("--speculative-eagle-topk 1", "--speculative-num-steps and"),
        ("--speculative-num-draft-tokens 4", "--speculative-num-steps and"),
        ("--speculative-num-steps 3 --speculative-num-draft-tokens 4", "--speculative-eagle-topk:"),
        ("--speculative-eagle-topk 1 --speculative-num-draft-tokens 4", "--speculative-num-steps:"),
        ("--speculative-num-steps 3 --speculative-eagle-topk 4",
         "--speculative-num-draft-tokens:"),
        (CHAIN, None),
        (TREE, None),
        ("", None),
        ("--speculative-num-steps 3 --speculative-adaptive", None),
        ("--speculative-num-steps 3 --speculative-draft-model-path g4-assistant", None),
    ],
)  # fmt: skip
def test_steps_topk_and_window_belong_together(
    given: str, missing: str | None, validators: Validators
) -> None:
    found = said(validators, "SPEC118", f"{EAGLE} {given}")
    assert len(found) == (missing is not None)
    assert missing is None or f"without {missing}" in found[0]
    ngram = f"--model-path m --speculative-algorithm NGRAM {given}"
    assert said(validators, "SPEC118", ngram) == []


def test_gemma_drafts_run_without_a_window(validators: Validators) -> None:
    command = f"{EAGLE} --speculative-draft-model-path d --speculative-num-steps 3"
    gemma = Checkpoint(Path("d"), {"architectures": ["Gemma4AssistantForCausalLM"]})
    assert said(validators, "SPEC118", command, draft=gemma) == []
    other = Checkpoint(Path("d"), {"architectures": ["LlamaForCausalLMEagle3"]})
    assert len(said(validators, "SPEC118", command, draft=other)) == 1


@pytest.mark.parametrize(
    ("options", "engine", "found"),
    [
        ("--page-size 64 --attention-backend trtllm_mla", "0.5.23", True),
        ("--page-size 64 --attention-backend flashmla", "0.5.9", True),
        ("--page-size 64 --attention-backend triton", "0.5.12", True),
        ("--page-size 64 --attention-backend triton", "0.5.14", False),
        ("--page-size 64 --attention-backend fa3", "0.5.5", True),
        ("--page-size 64 --attention-backend fa3", "0.5.9", False),
        ("--page-size 64 --attention-backend flashinfer", "0.5.5", False),
        ("--page-size 1 --attention-backend triton", "0.5.12", False),
        ("--page-size 64", "0.5.23", False),
        ("--decode-attention-backend trtllm_mha", "0.5.23", True),
    ],
)
def test_trees_need_a_backend_with_trees(
    options: str, engine: str, found: bool, validators: Validators
) -> None:
    assert bool(said(validators, "SPEC119", f"{EAGLE} {TREE} {options}", engine)) is found
    chain = f"{EAGLE} {CHAIN} --speculative-num-draft-tokens 4 {options}"
    assert said(validators, "SPEC119", chain, engine) == []


@pytest.mark.parametrize(
    ("name", "options", "engine", "found"),
    [
        ("NGRAM", GROUPS, "0.5.23", True),
        ("STANDALONE", GROUPS, "0.5.12", True),
        ("DFLASH", GROUPS, "0.5.22", True),
        ("DFLASH", GROUPS, "0.5.23", False),
        ("EAGLE", GROUPS, "0.5.23", False),
        ("NGRAM", "--tp-size 4 --attn-dp-size 2", "0.5.23", True),
        ("NGRAM", "--tp-size 4 --dp-size 4", "0.5.23", False),
        ("EAGLE", "--pp-size 2", "0.5.17", True),
        ("EAGLE", "--pp-size 2", "0.5.23", True),
        ("EAGLE", "--pp-size 2 --disaggregation-mode prefill", "0.5.23", False),
        ("NEXTN", "--pp-size 2 --disaggregation-mode prefill", "0.5.17", True),
        ("EAGLE3", "--pp-size 2 --disaggregation-mode prefill", "0.5.23", True),
        ("NGRAM", "--pp-size 1", "0.5.17", False),
    ],
)
def test_parallelism_that_an_algorithm_lacks(
    name: str, options: str, engine: str, found: bool, validators: Validators
) -> None:
    command = f"--model-path m --speculative-algorithm {name} {options}"
    assert bool(said(validators, "SPEC120", command, engine)) is found


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (f"EAGLE {TREE}", "--speculative-eagle-topk 4"),
        (f"STANDALONE {CHAIN}", "--speculative-algorithm STANDALONE"),
        (f"NEXTN {CHAIN} --speculative-accept-threshold-acc 0.9",
         "--speculative-accept-threshold-acc"),
        (f"EAGLE {CHAIN}", None),
        (f"EAGLE {CHAIN} --speculative-accept-threshold-single 1.0", None),
    ],
)  # fmt: skip
def test_rejection_sampling(options: str, reason: str | None, validators: Validators) -> None:
    command = f"--model-path m --speculative-algorithm {options}"
    found = said(validators, "SPEC121", f"{command} --speculative-use-rejection-sampling")
    assert len(found) == (reason is not None)
    assert reason is None or f"refused with {reason};" in found[0]
    assert said(validators, "SPEC121", command) == []


@pytest.mark.parametrize(
    ("name", "block", "window", "wanted"),
    [("DSPARK", 5, 8, 6), ("DSPARK", 5, 6, None), ("DFLASH", 8, 16, 8), ("DFLASH", 16, 16, None)],
)
def test_windows_of_block_drafts(
    name: str, block: int, window: int, wanted: int | None, validators: Validators
) -> None:
    command = f"--model-path m --speculative-algorithm {name} --speculative-draft-model-path d"
    sizes = f"--speculative-num-draft-tokens {window}"
    given = f"{command} {sizes} --speculative-{name.lower()}-block-size {block}"
    found = said(validators, "SPEC122", given)
    assert len(found) == (wanted is not None)
    assert wanted is None or f"set --speculative-num-draft-tokens to {wanted}," in found[0]
    assert said(validators, "SPEC122", f"{command} {sizes}") == []


@pytest.mark.parametrize("name", ["DFLASH", "EAGLE3", "STANDALONE"])
def test_algorithms_with_a_draft_of_their_own(name: str, validators: Validators) -> None:
    command = f"--model-path m --speculative-algorithm {name}"
    assert len(said(validators, "SPEC123", command)) == 1
    assert said(validators, "SPEC123", f"{command} --speculative-draft-model-path d") == []
    assert said(validators, "SPEC123", EAGLE) == []


@pytest.mark.parametrize(
    ("command", "engine", "idle"),
    [
        ("--speculative-algorithm DSPARK --speculative-moe-runner-backend triton", "0.5.23",
         "--speculative-moe-runner-backend"),
        ("--speculative-algorithm EAGLE --speculative-moe-runner-backend triton", "0.5.23", None),
        ("--speculative-num-steps 3", "0.5.23", "--speculative-num-steps"),
        ("--speculative-algorithm NGRAM --enable-mixed-chunk", "0.5.23", "--enable-mixed-chunk"),
        ("--speculative-algorithm EAGLE --enable-mixed-chunk", "0.5.17", "--enable-mixed-chunk"),
        ("--speculative-algorithm EAGLE --enable-mixed-chunk", "0.5.23", None),
        ("--speculative-algorithm NGRAM --speculative-draft-window-size 64", "0.5.23",
         "--speculative-draft-window-size"),
        ("--speculative-algorithm EAGLE3 --speculative-token-map t.pt", "0.5.23",
         "--speculative-token-map"),
        ("--speculative-algorithm $A --speculative-num-steps 3", "0.5.23", None),
    ],
)  # fmt: skip
def test_arguments_without_effect(
    command: str, engine: str, idle: str | None, validators: Validators
) -> None:
    found = said(validators, "SPEC124", f"--model-path m {command}", engine)
    assert [text.split()[0] for text in found] == ([idle] if idle else [])


def test_a_sink_wants_a_window(validators: Validators) -> None:
    command = f"{EAGLE} --speculative-draft-sink-size 4"
    assert len(said(validators, "SPEC125", command)) == 1
    assert said(validators, "SPEC125", f"{command} --speculative-draft-window-size 512") == []


def test_speculation_limits_the_running_requests(validators: Validators) -> None:
    assert "at most 48 requests" in said(validators, "SPEC126", EAGLE)[0]
    assert said(validators, "SPEC126", f"{EAGLE} --max-running-requests 64") == []
    assert said(validators, "SPEC126", "--model-path m") == []


def test_nextn_shows_as_eagle(validators: Validators) -> None:
    nextn = EAGLE.replace("EAGLE", "NEXTN")
    assert "shows as EAGLE" in said(validators, "SPEC127", nextn)[0]
    assert said(validators, "SPEC127", EAGLE) == []


def test_default_drafts_by_architecture(validators: Validators) -> None:
    missing = Checkpoint(Path("m"), {"architectures": ["Qwen3NextForCausalLM"]})
    listed = Checkpoint(Path("m"), {"architectures": ["DeepseekV3ForCausalLM"]})
    assert len(said(validators, "SPEC128", EAGLE, target=missing)) == 1
    assert said(validators, "SPEC128", EAGLE, target=listed) == []
    assert said(validators, "SPEC128", EAGLE) == []
    named = f"{EAGLE} --speculative-draft-model-path m"
    assert said(validators, "SPEC128", named, target=missing) == []


@pytest.mark.parametrize(
    ("engine", "code"),
    [("0.5.12", None), ("0.5.14", "SPEC129"), ("0.5.20", "SPEC129"), ("0.5.23", "ENV105")],
)
def test_the_switch_of_the_second_version(
    engine: str, code: str | None, validators: Validators
) -> None:
    command = f"SGLANG_ENABLE_SPEC_V2=1 sglang serve {EAGLE}"
    found = [each for each in ("SPEC129", "ENV101", "ENV105")
             if said(validators, each, command, engine)]  # fmt: skip
    assert found == ([code] if code else [])


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("EAGLE --speculative-num-draft-tokens 6", "set draft tokens to 4, or steps to 5"),
        ("STANDALONE --speculative-num-draft-tokens 8", "set draft tokens to 4"),
        ("EAGLE --speculative-num-draft-tokens 4", None),
        ("NGRAM --speculative-num-draft-tokens 12", None),
    ],
)
def test_windows_of_chains(options: str, wanted: str | None, validators: Validators) -> None:
    found = said(validators, "SPEC101", f"--model-path m --speculative-algorithm {options} {CHAIN}")
    assert len(found) == (wanted is not None)
    assert wanted is None or wanted in found[0]


@pytest.mark.parametrize(
    ("code", "options", "engine", "found"),
    [
        ("SPEC104", "DFLASH --speculative-eagle-topk 4", "0.5.23", True),
        ("SPEC104", "DFLASH --speculative-eagle-topk 1", "0.5.23", False),
        ("SPEC104", "EAGLE --speculative-eagle-topk 4", "0.5.23", False),
        ("SPEC111", "DSPARK --pp-size 2", "0.5.23", True),
        ("SPEC111", "DSPARK --pp-size 2 --disaggregation-mode prefill", "0.5.23", False),
        ("SPEC111", "DSPARK --pp-size 2 --disaggregation-mode prefill", "0.5.17", True),
        ("SPEC111", "DFLASH --pp-size 2 --disaggregation-mode prefill", "0.5.23", True),
        ("SPEC111", "DFLASH --pp-size 1", "0.5.23", False),
        ("SPEC112", f"DSPARK {GROUPS}", "0.5.17", True),
        ("SPEC112", f"DSPARK {GROUPS} --enable-dp-lm-head", "0.5.17", False),
        ("SPEC112", "DFLASH --tp-size 4 --attn-dp-size 4", "0.5.23", True),
        ("SPEC112", f"DFLASH {GROUPS}", "0.5.17", False),
        ("SPEC112", f"EAGLE {GROUPS}", "0.5.17", False),
    ],
)
def test_block_drafts(
    code: str, options: str, engine: str, found: bool, validators: Validators
) -> None:
    command = f"--model-path m --speculative-draft-model-path d --speculative-algorithm {options}"
    assert bool(said(validators, code, command, engine)) is found


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ("SGLANG_SIMULATE_ACC_LEN=3.5", True),
        ("SGLANG_SIMULATE_ACC_LEN=$LENGTH", True),
        ("SGLANG_SIMULATE_ACC_LEN=-1", False),
        ("SGLANG_SIMULATE_ACC_LEN=0", False),
        ("SGLANG_SIMULATE_ACC_LEN=many", False),
        ("SGLANG_SIMULATE_ACC_METHOD=multinomial", False),
        ("SGLANG_SIMULATE_UNIFORM_EXPERTS=1", True),
        ("SGLANG_SIMULATE_ROUND_ROBIN_EXPERTS=false", False),
    ],
)
def test_simulations(variable: str, found: bool, validators: Validators) -> None:
    judged = launch(f"{variable} sglang serve {EAGLE}")
    name, given = next(iter(judged.env.items()))
    if given.value and given.value.startswith("$"):
        judged.env[name] = type(given)(name, None, given.path)
    assert bool(list(validators.rules["SPEC115"].check(judged))) is found


@pytest.mark.parametrize(
    ("code", "variable", "found"),
    [
        ("ENG305", "SGLANG_RADIX_FORCE_MISS=1", True),
        ("ENG305", "SGLANG_RADIX_FORCE_MISS=0", False),
        ("ENG305", "SGLANG_DIAG_BYPASS_HEALTH_GENERATE=true", True),
        ("ENG305", "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=0", True),
        ("ENG305", "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=1", False),
        ("ENG305", "SGLANG_LOG_GC=1", False),
        ("ENG306", "SGLANG_TEST_RETRACT=1", True),
        ("ENG306", "SGLANG_TEST_RETRACT=0", False),
        ("ENG306", "SGLANG_TEST_STUCK_TOKENIZER=5", True),
        ("ENG306", "SGLANG_TEST_DISAGG_FAILURE_PROB=0.0", False),
        ("ENG306", "SGLANG_TEST_MAX_RETRY=3", False),
    ],
)
def test_variables_that_mislead(
    code: str, variable: str, found: bool, validators: Validators
) -> None:
    assert bool(said(validators, code, f"{variable} sglang serve --model-path m")) is found
