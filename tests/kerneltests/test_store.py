"""What a host measured, kept between runs."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kerneltests.programs import FIGURE

from configurator.errors import ConfiguratorError
from configurator.kerneltests.model import Measured, Result, Verdict
from configurator.kerneltests.store import keep, read_figures
from configurator.plan.store_path import default_figures


def result(name: str, value: float, verdict: Verdict = "ok") -> Result:
    spread = {"value": value, "low": value, "high": value, "unit": "GB/s"}
    figure = Measured.model_validate({**FIGURE, **spread})
    return Result(name, verdict, "", 1.0, (), (("copy_gb_s", figure),), (("gpu", "NVIDIA H200"),))


def test_figures_are_kept_and_replaced_by_name(tmp_path: Path) -> None:
    path = tmp_path / "new" / "host.json"
    assert keep(path, [result("host-ceilings", 4200), result("moe-reads", 4000)])
    assert keep(path, [result("host-ceilings", 4300, "slow")])
    kept = read_figures(path)
    assert kept is not None
    assert sorted(kept.selftests) == ["host-ceilings", "moe-reads"]
    figure = kept.figure("host-ceilings", "copy_gb_s")
    assert figure is not None
    assert (figure.value, figure.unit, figure.runs) == (4300, "GB/s", 50)
    assert kept.figure("host-ceilings", "read_gb_s") is None
    assert kept.figure("all-reduce", "copy_gb_s") is None
    stored = kept.selftests["host-ceilings"]
    assert (stored.verdict, stored.machine["gpu"]) == ("slow", "NVIDIA H200")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stored.measured_at)
    assert json.loads(path.read_text())["format"] == 1


def test_the_fastest_read_on_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    assert keep(path, [reading("a", 4600), reading("b", 4650), reading("c", 9000, "NVIDIA B200")])
    kept = read_figures(path)
    assert kept is not None
    found = kept.reads("NVIDIA H200")
    assert found is not None
    assert (found[0], found[1].value) == ("b", 4650)
    assert kept.reads("NVIDIA GB10") is None


def reading(name: str, value: float, gpu: str = "NVIDIA H200") -> Result:
    rate = dict(result(name, value).figures)["copy_gb_s"]
    return Result(name, "ok", "", 1.0, (), (("read_gb_s", rate),), (("gpu", gpu),))


def test_wrong_numbers_and_no_numbers_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    assert not keep(path, [result("a", 1, "wrong"), Result("b", "not_run", "no GPU", 1.0)])
    assert not path.exists()
    assert read_figures(path) is None


def test_where_it_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.node", lambda: "../gpu 7")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_figures() == tmp_path / "configurator" / "hosts" / "_gpu_7.json"
    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_figures() == Path("/home/me/.local/state/configurator/hosts/_gpu_7.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2, "host": "a"}', '{"format": 1}'])
def test_something_else_is_neither_read_nor_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "host.json"
    path.write_text(text)
    with pytest.raises(ConfiguratorError, match=r"KRN002 .* holds no figures of a host"):
        read_figures(path)
    with pytest.raises(ConfiguratorError, match="KRN002"):
        keep(path, [result("a", 1)])
    assert path.read_text() == text


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfiguratorError, match=r"KRN002 .*/file/host.json cannot be"):
        keep(tmp_path / "file" / "host.json", [result("a", 1)])


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ConfiguratorError, match=r"KRN002 .*pipe is a pipe, not a file"):
        keep(path, [result("a", 1)])


def test_runs_side_by_side_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    names = [f"test-{number}" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda name: keep(path, [result(name, 1)]), names))
    found = read_figures(path)
    assert found is not None
    assert sorted(found.selftests) == sorted(names)
