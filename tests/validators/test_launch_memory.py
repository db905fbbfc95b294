"""Memory shares, limits of running requests, and prefill chunks of a launch."""

from __future__ import annotations

import pytest
from launches import launch

from configurator.loader import Validators

GROUPS = "--tp-size 8 --dp-size 8 --enable-dp-attention"


def messages(
    validators: Validators, code: str, options: str, engine: str = "0.5.23",
    hardware: str | None = None,
) -> list[str]:  # fmt: skip
    judged = launch(f"--model-path m {options}", engine=engine, hardware=hardware)
    return [f"{found.message}; {found.remedy}" for found in validators.rules[code].check(judged)]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("1.5", "0.015"), ("85", "0.85"), ("0", "0.85"), ("-0.1", "0.85"), ("1", "0.85"),
     ("0.85", None), ("0.01", None), ("0.999", None)],
)  # fmt: skip
def test_fractions(value: str, wanted: str | None, validators: Validators) -> None:
    said = messages(validators, "MEM106", f"--mem-fraction-static={value}")
    assert len(said) == (wanted is not None)
    assert wanted is None or f"set --mem-fraction-static to {wanted}," in said[0]


@pytest.mark.parametrize(
    ("options", "engine", "fact"),
    [
        ("--max-running-requests 0", "0.5.17", "no request may run"),
        ("--max-running-requests 0", "0.5.23", "the engine runs 1"),
        (f"--max-running-requests 7 {GROUPS}", "0.5.22", "leaves each of them 0"),
        (f"--max-running-requests 7 {GROUPS}", "0.5.23", None),
        (f"--max-running-requests 8 {GROUPS}", "0.5.17", None),
        ("--max-running-requests 7 --tp-size 8 --dp-size 8", "0.5.17", None),
    ],
)
def test_limits_of_running_requests(
    options: str, engine: str, fact: str | None, validators: Validators
) -> None:
    said = messages(validators, "MEM107", options, engine)
    assert len(said) == (fact is not None)
    assert fact is None or fact in said[0]


def test_groups_share_the_limit(validators: Validators) -> None:
    (said,) = messages(validators, "MEM108", f"--max-running-requests 100 {GROUPS}", "0.5.17")
    assert "is 12 each, 4 of them unused" in said
    (said,) = messages(
        validators, "MEM108", "--tp-size 8 --attn-dp-size 4 --max-running-requests 64"
    )
    assert "is 16 each;" in said
    assert messages(validators, "MEM108", "--tp-size 8 --max-running-requests 100") == []


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("--chunked-prefill-size 5000 --page-size 64", "4992"),
        # 8 groups of 1000 / 8 = 125 tokens.
        (f"--chunked-prefill-size 1000 --page-size 64 {GROUPS}", "512"),
        ("--chunked-prefill-size 10 --page-size 64", "64"),
        ("--chunked-prefill-size -1 --page-size 64", None),
        ("--chunked-prefill-size 5000 --page-size 64 --disaggregation-mode decode", None),
        ("--chunked-prefill-size 8192 --page-size 64", None),
        ("--chunked-prefill-size 5000", None),
    ],
)
def test_prefill_chunks(options: str, wanted: str | None, validators: Validators) -> None:
    said = messages(validators, "MEM109", options)
    assert len(said) == (wanted is not None)
    assert wanted is None or said[0].endswith(f"set --chunked-prefill-size to {wanted}")


@pytest.mark.parametrize(
    ("fraction", "hardware", "code"),
    [
        ("0.85", "dgx-spark", "MEM101"),
        ("0.7", "dgx-spark", "MEM110"),
        ("0.8", "dgx-spark", "MEM110"),
        ("0.68", "dgx-spark", None),
        ("0.95", "rtx-pro-6000", None),
        ("0.95", None, None),
        ("85", "dgx-spark", "MEM106"),
    ],
)
def test_shared_memory(
    fraction: str, hardware: str | None, code: str | None, validators: Validators
) -> None:
    options = f"--mem-fraction-static {fraction}"
    found = [
        each
        for each in ("MEM101", "MEM105", "MEM106", "MEM110")
        if messages(validators, each, options, hardware=hardware)
    ]
    assert found == ([code] if code else [])


def test_shared_memory_left_to_the_engine(validators: Validators) -> None:
    (said,) = messages(validators, "MEM105", "", hardware="dgx-spark")
    assert said.endswith("(--mem-fraction-static) to 0.68")
    assert messages(validators, "MEM105", "", hardware="h200") == []
