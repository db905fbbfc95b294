"""Spoilt profiles: whatever a person may write, only findings come out, never a traceback."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from configurator.content import FOLDERS, ROOT, Library
from configurator.loader import Validators
from configurator.validate import Validation, validate

DEPLOYMENTS = sorted((ROOT / FOLDERS["deployment"]).glob("*.yaml"))
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
HEADER = "apiVersion: configurator/v1\nkind: Deployment\nname: a\n"
Path_ = tuple[str | int, ...]

SUBSTITUTES: dict[str, Any] = {
    "null": None,
    "empty text": "",
    "text": "text",
    "zero": 0,
    "negative": -7,
    "huge": 10**30,
    "large": 99_999,
    "fraction": 0.5,
    "true": True,
    "list": ["a", 1, None],
    "map": {"a": {"b": 1}},
    "unicode": "Ling-\u0337\u202e\U0001f600",
    "long": "x" * 5_000,
}

TEXTS = {
    "empty": "",
    "only a comment": "# nothing\n",
    "scalar": "42\n",
    "list": "- a\n- b\n",
    "two documents": "a: 1\n---\nb: 2\n",
    "nul": "name: a\x00b\n",
    "escaped nul": 'extends: ling-3.0-flash-spark\nname: "a\\0b"\n',
    "escaped nul in a path": "apiVersion: configurator/v1\nkind: Deployment\nname: a\n"
    'extends: "./a\\0b.yaml"\n',
    "lone surrogate": 'name: "\\ud800"\n',
    "tabs": "name: a\n\tmodel: b\n",
    "deep flow": "a: " + "[" * 500 + "]" * 500 + "\n",
    "deep maps": "a: " + "{a: " * 200 + "1" + "}" * 200 + "\n",
    "very deep flow": "[" * 100_000,
    "alias bomb": "a: &a [1,1,1,1,1,1,1,1,1]\n"
    + "".join(
        f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n"
        for p, c in zip("abcdefg", "bcdefgh", strict=True)
    ),
    "alias to itself": "a: &a [*a]\n",
    "alias to itself in a map": "a: &a {b: *a}\n",
    "undefined alias": "a: *nowhere\n",
    "merge key": "a: &a {b: 1}\nc: {<<: *a}\n",
    "tag": "a: !!python/object/apply:os.system [true]\n",
    "unfinished": "a: {b: [1, 2\n",
    "unfinished quote": 'a: "b\n',
    "key of a map": "? {a: 1}\n: b\n",
    "duplicate": "name: a\nname: b\n",
    "extends itself": f"{HEADER}extends: ./profile.yaml\n",
    "extends a folder": f"{HEADER}extends: ./\n",
    "extends a list": f"{HEADER}extends: [a]\n",
    "long number": f"name: {'9' * 5_000}\n",
    "byte order mark": "\ufeffname: a\n",
    "line separators": "name: a\u2028kind: b\x85x: c\r\ny: d\rz: e\n",
    "percent": "%YAML 3.0\n---\nname: a\n",
    "suppressions": "# configurator: ignore[\n# configurator: ignore[,,] x\nname: a\n",
}


def paths(data: Any, below: Path_ = ()) -> Iterator[Path_]:
    """Every place in a document."""
    items: list[tuple[str | int, Any]] = []
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list):
        items = list(enumerate(data))
    for key, value in items:
        yield (*below, key)
        yield from paths(value, (*below, key))


def parent(data: Any, path: Path_) -> Any:
    for step in path[:-1]:
        data = data[step]
    return data


def mutations(data: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Deterministic ways to spoil one document, each with its name."""
    for path in paths(data):
        name = ".".join(map(str, path))
        spoilt = copy.deepcopy(data)
        del parent(spoilt, path)[path[-1]]
        yield f"{name} deleted", spoilt
        for label, value in SUBSTITUTES.items():
            spoilt = copy.deepcopy(data)
            parent(spoilt, path)[path[-1]] = value
            yield f"{name} is {label}", spoilt
        place = parent(data, path)
        if isinstance(place, dict):
            spoilt = copy.deepcopy(data)
            parent(spoilt, path)[f"{path[-1]}x"] = parent(spoilt, path).pop(path[-1])
            yield f"{name} misspelt", spoilt
        if isinstance(place[path[-1]], str | int | float):
            spoilt = copy.deepcopy(data)
            parent(spoilt, path)[path[-1]] = {"value": [place[path[-1]]]}
            yield f"{name} wrapped", spoilt


def judged(path: Path, library: Library, validators: Validators) -> Validation:
    """The validation; it must consist of findings of known kinds."""
    result = validate(str(path), library, validators)
    crashed = [finding.message for finding in result.findings if finding.code == "INT001"]
    assert not crashed, crashed
    assert result.exit_code() in (0, 1, 2)
    assert result.unusable == (result.deployment is None)
    assert not result.unusable or result.findings
    for finding in result.findings:
        assert finding.message
        assert finding.position is None or finding.position.line >= 1
    return result


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda path: path.stem)
def test_spoilt_documents(
    deployment: Path, tmp_path: Path, library: Library, validators: Validators
) -> None:
    data = yaml.safe_load(deployment.read_text(encoding="utf-8"))
    path = tmp_path / "profile.yaml"
    count = unusable = 0
    for name, spoilt in mutations(data):
        path.write_text(yaml.dump(spoilt, Dumper=DUMPER, allow_unicode=True), encoding="utf-8")
        try:
            unusable += judged(path, library, validators).unusable
        except Exception as error:
            raise AssertionError(f"{deployment.stem}: {name}: {error!r}") from error
        count += 1
    assert count > 100
    assert unusable > count / 3


@pytest.mark.parametrize("name", TEXTS)
def test_spoilt_texts(name: str, tmp_path: Path, library: Library, validators: Validators) -> None:
    path = tmp_path / "profile.yaml"
    path.write_bytes(TEXTS[name].encode("utf-8", "surrogatepass"))
    result = judged(path, library, validators)
    assert result.unusable
    assert result.exit_code() == 2


@pytest.mark.parametrize("cut", range(0, 3_000, 97))
def test_cut_off_files(cut: int, tmp_path: Path, library: Library, validators: Validators) -> None:
    text = (ROOT / FOLDERS["deployment"] / "ling-3.0-flash-spark-baseline.yaml").read_bytes()
    path = tmp_path / "profile.yaml"
    path.write_bytes(text[:cut])
    judged(path, library, validators)


@pytest.mark.parametrize(
    "argument", ["", "/", ".", "a/", "x.yaml", "a\0b/", "~/none.yaml", "ü" * 300]
)
def test_odd_arguments(argument: str, library: Library, validators: Validators) -> None:
    assert validate(argument, library, validators).exit_code() == 2
