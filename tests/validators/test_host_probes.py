"""What the host's own tools say, and whether that may count."""

from __future__ import annotations

from typing import Any

import pytest
from replicas import judged, log, said

from configurator.evidence.host import Gpu, Host
from configurator.evidence.model import ModelReport, Report
from configurator.loader import Validators

OLD = Gpu("NVIDIA GeForce RTX 3080", "10240 MiB", "sm_86", "580.1")
NEW = Gpu("NVIDIA GeForce RTX 4080 SUPER", "16376 MiB", "sm_89", "580.1")
SPARK = Gpu("NVIDIA GB10", "[N/A]", "sm_121", "580.95")
TWO = {"tp_size": 2, "pp_size": 1, "nnodes": 1}


def on(product: str) -> tuple[Report, ...]:
    return (Report("r.json", 0, "ready", ModelReport("M", False), device={"name": product}),)


@pytest.mark.parametrize(
    ("gpus", "seen", "info", "expected", "says"),
    [
        ((OLD, NEW), True, TWO, ("REFUTED", "resolved"), "2 ranks run here, and the GPUs"),
        ((OLD, NEW, NEW), True, TWO, ("INCONCLUSIVE", "resolved"), "not alike: 1 x sm_86 (NVIDIA"),
        ((OLD, NEW), True, None, ("INCONCLUSIVE", "resolved"), "not alike"),
        ((NEW, NEW), True, TWO, ("PROVEN", "resolved"), "2 x sm_89 (NVIDIA GeForce RTX 4080 SUP"),
        ((OLD, NEW), True, {"tp_size": 1}, ("NOT_APPLICABLE", None), "one rank"),
        ((OLD, NEW), True, {**TWO, "nnodes": 2}, ("NOT_APPLICABLE", None), "one rank"),
        # A forwarded port leads to another machine: nothing of this one counts.
        ((OLD, NEW), False, TWO, ("INCONCLUSIVE", "resolved"), "nothing shows that the engine"),
        ((NEW, NEW), False, TWO, ("NOT_APPLICABLE", None), "nothing shows that the engine"),
        ((), True, TWO, ("NOT_APPLICABLE", None), "nvidia-smi knows no GPU"),
    ],
)
def test_gpus_alike(
    validators: Validators, gpus: tuple[Gpu, ...], seen: bool, info: dict[str, Any] | None,
    expected: tuple[str, str | None], says: str,
) -> None:  # fmt: skip
    host = Host(gpus, 64, 32, seen)
    outcome = judged(validators, "gpus-alike", host=host, server_info=info)
    assert said(outcome) == expected
    assert says in outcome.summary


def test_a_report_of_the_same_gpu_shows_that_the_engine_runs_there(validators: Validators) -> None:
    host = Host((OLD, NEW), 64, 32)
    for product, answer in ((OLD.product, "REFUTED"), ("NVIDIA H200", "INCONCLUSIVE")):
        outcome = judged(
            validators, "gpus-alike", host=host, server_info=TWO, reports=on(product)
        )  # fmt: skip
        assert str(outcome.answer) == answer


BEFORE = "Load weight begin. avail mem={} GB"


@pytest.mark.parametrize(
    ("gpu", "memory", "line", "expected", "says"),
    [
        (Gpu("NVIDIA GB10", "63590 MiB", "sm_121", ""), 119.7, "", ("INCONCLUSIVE", "resolved"),
         "NVIDIA GB10 has 62.1 GiB"),
        (Gpu("NVIDIA GB10", "122573 MiB", "sm_121", ""), 119.7, "", ("PROVEN", "resolved"),
         "119.7"),
        (SPARK, 62.1, "", ("INCONCLUSIVE", "resolved"), "62.1 GiB, and 119.7 are built in"),
        (SPARK, 119.7, BEFORE.format("109.40"), ("PROVEN", "built"), "109.40 GB were available"),
        (SPARK, 119.7, BEFORE.format("58.10"), ("INCONCLUSIVE", "built"), "58.10 GB"),
        (SPARK, 119.7, "", ("INCONCLUSIVE", None), "does not tell its memory"),
        (Gpu("NVIDIA GB100", "62 GiB", "sm_100", ""), 62, "", ("NOT_APPLICABLE", None), "no GPU"),
        (NEW, 62, "", ("NOT_APPLICABLE", None), "no GPU here"),
    ],
)  # fmt: skip
def test_memory_of_a_gpu_that_shares_the_hosts(
    validators: Validators, gpu: Gpu, memory: float, line: str,
    expected: tuple[str, str | None], says: str,
) -> None:  # fmt: skip
    outcome = judged(
        validators, "gpu-memory-whole", host=Host((gpu,), memory, 10, True),
        log=log(line) if line else None,
    )  # fmt: skip
    assert said(outcome) == expected
    assert says in outcome.summary
    assert ("zz-nvidia-drm-override.conf" in outcome.remedy) == (
        expected[0] == "INCONCLUSIVE" and expected[1] is not None
    )


def test_memory_of_a_machine_that_may_be_another(validators: Validators) -> None:
    outcome = judged(validators, "gpu-memory-whole", host=Host((SPARK,), 62.1, 10))
    assert said(outcome) == ("NOT_APPLICABLE", None)
