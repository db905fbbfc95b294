"""What START.md of targets for Kubernetes removes: all that earlier renderings left, no more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from stand_in import LIBRARY

from configurator.render import TARGETS
from configurator.resolve import resolve

HEAD = "apiVersion: configurator/v1\nkind: Deployment\nname: d\nextends: muse-spark-open-gb300x8\n"
ONE = "topology: {replicas: 1}\nhardware: {gpus: 4}\nrouter: null\n"
TARGET = pytest.mark.parametrize("target", ["k8s", "lws", "dynamo"])
OPERATORS = {"kind": "ConfigMap", "metadata": {"name": "d-settings"}}
"""As `kubectl create configmap` makes it."""


def rendered(folder: Path, target: str, extra: str) -> tuple[list[dict[str, Any]], str]:
    """The objects, and START.md."""
    path = folder / "p.yaml"
    path.write_text(HEAD + extra)
    files = {f.path: f.text for f in TARGETS[target](resolve(*LIBRARY.profile(str(path)), LIBRARY))}
    return list(yaml.safe_load_all(files[f"{target}.yaml"])), files["START.md"]


def chosen(objects: list[dict[str, Any]], start: str, command: str) -> set[tuple[str, str]]:
    """What a command of START.md chooses among these, as the API server reads its selector."""
    (line,) = re.findall(rf"^kubectl {command} (?:--ignore-not-found )?-l (.*)$", start, re.M)
    selector, kinds = line.replace("'", "").split(" ")
    found = set()
    for one in objects:
        labels = one["metadata"].get("labels", {})
        terms = [term.partition("!=" if "!=" in term else "=") for term in selector.split(",")]
        met = all((labels.get(name) == value) == (sign == "=") for name, sign, value in terms)
        if met and one["kind"].lower() in kinds.split(","):
            found.add((one["kind"], one["metadata"]["name"]))
    return found


def names(objects: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["kind"], one["metadata"]["name"]) for one in objects}


@TARGET
def test_what_an_earlier_rendering_left_is_chosen_and_nothing_else(
    tmp_path: Path, target: str
) -> None:
    before, _ = rendered(tmp_path, target, "")
    now, start = rendered(tmp_path, target, ONE)
    # What is in the cluster once the second is applied over the first.
    held = {(one["kind"], one["metadata"]["name"]): one for one in (*before, *now, OPERATORS)}
    left = names(before) - names(now)
    assert {kind for kind, _ in left} >= {"ConfigMap"}
    for command in ("get", "delete"):
        rows = start.replace("kubectl get pods", "").replace("kubectl delete --ignore", "")
        assert chosen(list(held.values()), rows, command) == left
    assert chosen(now, rows, "delete") == set()
    if target == "k8s":
        assert ("StatefulSet", "d-r1-h0") in left
        assert ("Deployment", "d-router") in left


@TARGET
def test_removal_leaves_what_the_operator_made(tmp_path: Path, target: str) -> None:
    now, start = rendered(tmp_path, target, "")
    (line,) = re.findall("^kubectl delete --ignore-not-found .*$", start, re.M)
    assert chosen([*now, OPERATORS], line, "delete") == names(now)


@TARGET
def test_no_pod_starts_anew_for_the_label(tmp_path: Path, target: str) -> None:
    for one in rendered(tmp_path, target, "")[0]:
        assert "configurator/rendering" in one["metadata"]["labels"]
        assert "configurator/rendering" not in str(one.get("spec"))
