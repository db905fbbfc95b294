"""Stored measurements as deployments, and which of them must not predict what."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from plan.deployments import LIBRARY, shipped
from plan.geometries import by_model

from configurator.content import ROOT, Library
from configurator.errors import ConfiguratorError
from configurator.plan.geometry import geometry_of
from configurator.plan.measured import deployment_of, measured_of, plain_steps

SPARK = {
    "ling-3.0-flash-fp4-spark-baseline", "ling-3.0-flash-fp4-spark-off-c1",
    "ling-3.0-flash-fp4-spark-off-c16", "qwen3-8b-spark-vllm",
}  # fmt: skip


def test_a_measurement_is_the_deployment_it_was_taken_of() -> None:
    found = deployment_of(LIBRARY.measurement("ling-3.0-flash-fp4-h200-tp2-c16"), LIBRARY)
    assert (found.hardware.name, found.model.name) == ("h200", "ling-3.0-flash-fp4")
    assert found.profile.topology.tensor == 2
    assert found.profile.workload.concurrency == 16
    assert found.speculation is None
    drafted = deployment_of(LIBRARY.measurement("ling-3.0-flash-fp4-spark-optimized"), LIBRARY)
    assert drafted.speculation is not None
    assert set(drafted.mechanisms) == {"humming-mxfp4-moe", "fp8-lm-head", "nextn-mtp"}


def test_acceptance_goes_with_speculation_and_only_with_it() -> None:
    drafted = LIBRARY.measurement("ling-3.0-flash-fp4-spark-optimized")
    with pytest.raises(ConfiguratorError, match="speculates and has no 'accepted'"):
        deployment_of(drafted.model_copy(update={"accepted": None}), LIBRARY)
    plain = LIBRARY.measurement("qwen3-8b-h200-c1")
    with pytest.raises(ConfiguratorError, match="accepts without speculation"):
        deployment_of(plain.model_copy(update={"accepted": 2.0}), LIBRARY)
    with pytest.raises(ConfiguratorError, match="no model is named 'qwen'"):
        deployment_of(plain.model_copy(update={"model": "qwen"}), LIBRARY)


def test_only_steps_without_speculation_tell_the_efficiency() -> None:
    assert {each.name for each in plain_steps(LIBRARY, geometry_of, "dgx-spark")} == SPARK


def test_a_step_is_counted_in_bytes_of_its_own_configuration() -> None:
    steps = {each.name: each for each in plain_steps(LIBRARY, by_model, "dgx-spark")}
    one = steps["ling-3.0-flash-fp4-spark-off-c1"]
    # 4.83 GB at a short context, and 63 MB more of the cache at 8,704 tokens.
    assert one.size == pytest.approx(4.83e9 + 63e6, rel=0.01)
    assert one.apparent == pytest.approx(4.89 / (0.02576 * 273), rel=0.01)
    assert one.bound_by_bandwidth
    assert steps["qwen3-8b-spark-vllm"].apparent == pytest.approx(0.73, abs=0.01)


def test_hardware_without_a_measurement_gets_those_of_others() -> None:
    found = plain_steps(LIBRARY, geometry_of, "rtx-pro-6000")
    assert {"dgx-spark", "h200", "b200", "gb300-nvl72"} == {each.hardware for each in found}


def test_a_measurement_of_ones_own_content_counts(tmp_path: Path) -> None:
    folder = tmp_path / "profiles" / "measurements"
    folder.mkdir(parents=True)
    shipped_one = ROOT / "profiles" / "measurements" / "qwen3-8b-h200-c1.yaml"
    text = shipped_one.read_text().replace("name: qwen3-8b-h200-c1", "name: mine")
    (folder / "mine.yaml").write_text(text.replace("hardware: h200", "hardware: rtx-pro-6000"))
    library = Library((tmp_path,))
    assert [each.name for each in plain_steps(library, geometry_of, "rtx-pro-6000")] == ["mine"]


def test_a_figure_never_predicts_itself() -> None:
    same, out = measured_of(shipped("ling-3.0-flash-spark-baseline"), 1, LIBRARY)
    assert [each.name for each in same] == ["ling-3.0-flash-fp4-spark-baseline"]
    # The whole series: the same people in the same run.
    assert out == {
        "ling-3.0-flash-fp4-spark-baseline", "ling-3.0-flash-fp4-spark-optimized",
        "ling-3.0-flash-fp4-spark-unshared-head",
    }  # fmt: skip
    left = plain_steps(LIBRARY, geometry_of, "dgx-spark", out)
    assert {each.name for each in left} == SPARK - {"ling-3.0-flash-fp4-spark-baseline"}


def test_another_batch_or_mechanism_is_another_figure() -> None:
    deployment = shipped("ling-3.0-flash-spark-baseline")
    assert measured_of(deployment, 16, LIBRARY) == ((), frozenset())
    same, _ = measured_of(shipped("ling-3.0-flash-spark-dspark"), 1, LIBRARY)
    assert same == ()


def test_graphs_and_what_sets_nothing_make_no_other_configuration() -> None:
    deployment = shipped("ling-3.0-flash-spark")
    assert "decode-cuda-graphs" in deployment.mechanisms
    same, _ = measured_of(deployment, 1, LIBRARY)
    assert {each.name for each in same} == {
        "ling-3.0-flash-fp4-spark-optimized", "ling-3.0-flash-fp4-spark-unshared-head",
    }  # fmt: skip


@pytest.mark.parametrize("name", LIBRARY.names("measurement"))
def test_every_shipped_measurement_can_be_counted(name: str) -> None:
    library = Library()
    deployment = deployment_of(library.measurement(name), library)
    geometry = geometry_of(deployment, library)
    assert geometry.weights is not None
    assert deployment.hardware.bandwidth_gb_s is not None


@pytest.mark.parametrize(("key", "value"), [("batch", 10**9), ("accepted", 1e18)])
def test_a_measurement_that_cannot_be_is_refused_with_its_place(
    tmp_path: Path, key: str, value: float
) -> None:
    name = "qwen3-8b-nextn-h200-c1"
    text = (ROOT / "profiles" / "measurements" / f"{name}.yaml").read_text()
    data = yaml.safe_load(text) | {key: value}
    folder = tmp_path / "profiles" / "measurements"
    folder.mkdir(parents=True)
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(ConfiguratorError, match=key):
        Library((tmp_path,)).measurement(name)
