"""Every estimator together, on shipped deployments and where little is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.plan.efficiency import Plain
from configurator.plan.planning import plan_of
from configurator.plan.step import Asked
from configurator.resolve import resolve

HEAD = "apiVersion: configurator/v1\nkind: Deployment\nname: mine\n"


_OR = "give it there, or set hardware.name to the machine that it is (configurator list hardware)"


def deployment(library: Library, name: str) -> Deployment:
    return resolve(*library.profile(name), library)


def own(tmp_path: Path, library: Library, text: str) -> Deployment:
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + text)
    return deployment(library, str(path))


def test_a_flagship_is_planned_as_a_whole(library: Library) -> None:
    plan = plan_of(
        deployment(library, "ling-3.0-flash-spark"), library, Asked(accepted=2.68, context=1024)
    )
    assert plan.unknown == ()
    assert plan.memory is not None
    assert plan.memory.fits is True
    assert plan.step is not None
    assert plan.step.throughput is not None
    # Published: 53.89 tok/s on GSM8K at this acceptance.
    assert plan.step.throughput.low < 53.89 < plan.step.throughput.high


def test_what_is_missing_is_named_with_where_to_say_it(tmp_path: Path, library: Library) -> None:
    nowhere = own(
        tmp_path, library,
        "engine: {version: 0.5.23}\nhardware: {name: unspecified, gpus: 1}\n"
        "model: {name: qwen3-8b}\n",
    )  # fmt: skip
    plan = plan_of(nowhere, library)
    assert plan.memory is None
    assert plan.step is None
    assert plan.unknown[:2] == (
        "memory: hardware entry unspecified has no memory_gb: " + _OR,
        "decode step: hardware entry unspecified has no bandwidth_gb_s: " + _OR,
    )
    unread = own(
        tmp_path, library,
        "engine: {version: 0.5.23}\nhardware: {name: h200, gpus: 1}\n"
        "model: {name: unspecified, path: /nowhere}\n",
    )  # fmt: skip
    plan = plan_of(unread, library)
    assert plan.memory is None
    assert plan.step is None
    assert plan.unknown[0] == (
        "memory: the size of the weights is not known: give model entry unspecified its shape, or "
        "model.path a directory of this machine"
    )


def test_steps_of_this_host_count_before_all_others(library: Library) -> None:
    spark = deployment(library, "ling-3.0-flash-spark")
    step = plan_of(spark, library).step
    assert step is not None
    mine = Plain("mine", "dgx-spark", "ling-3.0-flash-fp4", 0.030, 4.83e9, 42, 273.0, host="desk")
    slower = plan_of(spark, library, own=[mine]).step
    assert slower is not None
    assert slower.efficiency.host == "desk"
    assert slower.plain.value > step.plain.value


def test_an_acceptance_that_cannot_be_is_refused(library: Library) -> None:
    with pytest.raises(ConfiguratorError, match="PLN001"):
        plan_of(deployment(library, "ling-3.0-flash-spark"), library, Asked(accepted=4.5))


QWEN = "engine: {version: 0.5.23}\nhardware: {name: h200, gpus: 1}\nmodel: {name: qwen3-8b}\n"


def test_more_requests_than_the_pool_or_the_limit_holds_are_said_to_wait(
    library: Library, tmp_path: Path
) -> None:
    def remarks(text: str, batch: int) -> tuple[str, ...]:
        step = plan_of(own(tmp_path, library, QWEN + text), library, Asked(batch=batch)).step
        assert step is not None
        return step.remarks

    context = "workload: {context: 32768}\n"
    assert remarks(context, 4096)[0] == (
        "4,096 requests are never decoded together: with 1,024 tokens each they take 4,194,304 of "
        "the 801,747 that the pool holds; plan for --batch 782"
    )
    assert not any("never decoded" in text for text in remarks(context, 782))
    assert remarks("extra: {args: {max-running-requests: 4}}\n", 5)[0] == (
        "5 requests are never decoded together: at most 4 run at once; set --max-running-requests "
        "5, or plan for --batch 4"
    )
