"""What differs between two plans."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import plans
import pytest

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.plan.diff import (
    Diff,
    Planned,
    Value,
    diff,
    in_section,
    kv_per_token,
    memory_figures,
    safe,
    same,
)
from configurator.plan.figures import Figure, exact
from configurator.plan.model import Geometry, Plan
from configurator.resolve import resolve

BASE = "apiVersion: configurator/v1\nkind: Deployment\nname: mine\nextends: ling-3.0-flash-spark\n"


def deployment(library: Library, name: str) -> Deployment:
    return resolve(*library.profile(name), library)


def own(tmp_path: Path, library: Library, more: str) -> Deployment:
    path = tmp_path / "mine.yaml"
    path.write_text(BASE + more)
    return deployment(library, str(path))


def compared(first: Deployment, second: Deployment, one: Plan, other: Plan) -> Diff:
    return diff(Planned(first, one), Planned(second, other))


def shown(found: Diff) -> dict[tuple[str, str], tuple[Value, Value]]:
    return {(d.section, d.name): (d.first, d.second) for d in found.differences}


def test_a_plan_does_not_differ_from_itself(library: Library) -> None:
    same_one = deployment(library, "ling-3.0-flash-spark")
    assert compared(same_one, same_one, plans.plan(), plans.plan()).differences == ()


def test_arguments_environment_and_figures_differ_in_their_order(library: Library) -> None:
    first = deployment(library, "ling-3.0-flash-spark")
    second = deployment(library, "ling-3.0-flash-spark-baseline")
    other = plans.plan(
        step=plans.step(accepted=None), memory=plans.memory(requests=exact(2, "", "", ""))
    )
    found = compared(first, second, plans.plan(), other)
    texts = shown(found)
    assert texts["arguments", "--moe-runner-backend"] == ("humming", "flashinfer_mxfp4")
    assert texts["arguments", "--enable-fp32-lm-head"] == (None, "given")
    assert texts["environment", "SGLANG_ENABLE_FP8_LM_HEAD"] == ("1", None)
    assert texts["step", "accepted a step"] == (plans.step().accepted, None)
    assert ("memory", "token capacity") not in texts
    assert ("arguments", "--mem-fraction-static") not in texts
    sections = list(dict.fromkeys(d.section for d in found.differences))
    assert sections == ["deployment", "arguments", "environment", "memory", "step"]
    (requests,) = in_section(found.differences, "memory")
    assert requests.name == "requests at once"


def test_topology_is_told_once(library: Library) -> None:
    first = deployment(library, "muse-spark-open-gb300x8")
    second = deployment(library, "muse-spark-open-gb300x8-tp8")
    texts = shown(compared(first, second, plans.plan(), plans.plan()))
    assert texts["deployment", "tensor"] == ("4", "8")
    assert texts["deployment", "replicas"] == ("2", "1")
    assert ("deployment", "hosts") not in texts


def test_secrets_are_no_values(library: Library, tmp_path: Path) -> None:
    first = deployment(library, "ling-3.0-flash-spark")
    second = own(
        tmp_path, library,
        "serving: {api_key: {env: null, file: /etc/ling/key}}\n"
        "extra: {env: {HF_TOKEN: hf_abcdefghijklmnopqrst, NOTE: plain}}\n",
    )  # fmt: skip
    texts = shown(compared(first, second, plans.plan(), plans.plan()))
    assert texts["arguments", "--api-key"] == (
        "(the secret in variable LING_API_KEY)", "(the secret in file /etc/ling/key)",
    )  # fmt: skip
    assert texts["environment", "HF_TOKEN"] == (None, "<redacted>")
    assert texts["environment", "NOTE"] == (None, "plain")
    assert safe("SERVICE_KEY", "verysecretvalue") == "<redacted>"


def test_memory_of_a_kind_is_one_figure() -> None:
    share = dataclasses.replace(plans.memory().shares[2], name="KV cache, sliding")
    memory = plans.memory(shares=(*plans.memory().shares, share))
    cache = memory_figures(plans.plan(memory=memory))["KV cache"]
    assert isinstance(cache, Figure)
    assert cache.value == pytest.approx(2 * 15.2e9)
    assert memory_figures(plans.unknown_plan()) == {}


def test_figures_are_the_same_by_their_range() -> None:
    one = exact(2.0, "B", "1 + 1", "here")
    assert same(one, exact(2.0, "B", "2", "there"))
    assert not same(one, exact(2.0, "s", "1 + 1", "here"))
    assert not same(one, dataclasses.replace(one, high=2.1))
    assert not same(one, None)
    assert same("a", "a")


def test_kv_of_a_token_only_where_it_does_not_depend_on_the_length() -> None:
    figure = kv_per_token(plans.geometry())
    assert figure is not None
    assert (figure.value, figure.unit) == (8064.0, "B/token")
    sliding = dataclasses.replace(plans.geometry().caches[0], window=2048)
    assert kv_per_token(dataclasses.replace(plans.geometry(), caches=(sliding,))) is None
    assert kv_per_token(Geometry((), (), None, None)) is None
