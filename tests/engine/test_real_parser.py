"""The catalogue against what the engine's own parser holds, option by option."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import real_parser
from real_parser import Options, read
from tools import need_engine

from configurator.engine.catalogue import Catalogue, Flag, shipped
from configurator.engine.extract import extract

RECORDED = read(Path(__file__).parent.parent / "fixtures" / "real_parsers.json.xz")
"""Recorded with `real_parser.py` where the engine is installed; its file says how."""

TYPES = {
    "int": "int", "float": "float", "str": "str", "bool": "bool", "loads": "json",
    "json_list_type": "json", "parse_cuda_graph_config_arg": "json_object",
    "human_readable_int": "size", None: "str",
}  # fmt: skip
"""Kinds of values by the function that reads them; any other function may accept any text."""


def differences(known: Catalogue, real: Options) -> list[str]:
    """Everything that the catalogue says otherwise than the parser."""
    flags = {flag.name: flag for flag in known.flags.values()}
    found = [f"{name}: only in one" for name in sorted(set(flags) ^ set(real))]
    for name in sorted(set(flags) & set(real)):
        ours, theirs = said(flags[name]), meant(real[name])
        found += [
            f"{name}.{key}: {ours[key]!r}, really {theirs[key]!r}"
            for key in ours
            if ours[key] != theirs[key] or type(ours[key]) is not type(theirs[key])
        ]
    return found


def said(flag: Flag) -> dict[str, Any]:
    return {
        "names": [flag.name, *flag.aliases],
        "type": flag.type,
        "choices": list(flag.choices),
        "nargs": flag.nargs,
        "default": flag.default,
        "required": flag.required,
        "refused": flag.refused,
    }


def meant(option: dict[str, Any]) -> dict[str, Any]:
    takes = option["takes_value"]
    return {
        "names": option["names"],
        "type": TYPES.get(option["type"], "str") if takes else None,
        "choices": [str(choice) for choice in option["choices"] or ()],
        "nargs": None if option["nargs"] in (None, 0) else str(option["nargs"]),
        "default": option["default"],
        "required": option["required"],
        "refused": option["refused"],
    }


@pytest.mark.parametrize(
    ("version", "count", "refused"),
    [
        ("0.5.3", 246, 7), ("0.5.9", 331, 0), ("0.5.14", 420, 0), ("0.5.18", 488, 1),
        ("0.5.20", 494, 0), ("0.5.23", 531, 0),
    ],
)  # fmt: skip
def test_recorded_parsers(version: str, count: int, refused: int) -> None:
    known = shipped().load(version)
    assert known is not None
    assert len(RECORDED[version]) == count
    assert sum(option["refused"] for option in RECORDED[version].values()) == refused
    assert differences(known, RECORDED[version]) == []


def test_a_difference_is_seen() -> None:
    known = shipped().load("0.5.23")
    assert known is not None
    real = RECORDED["0.5.23"] | {
        "tp-size": RECORDED["0.5.23"]["tp-size"] | {"default": True, "required": True},
        "invented": RECORDED["0.5.23"]["tp-size"],
    }
    assert differences(known, real) == [
        "invented: only in one",
        "tp-size.default: 1, really True",
        "tp-size.required: False, really True",
    ]


def test_the_installed_engine(tmp_path: Path) -> None:
    python, file = need_engine(), tmp_path / "real.json.xz"
    # Its own environment, and nothing of this project.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([python, real_parser.__file__, file], env=env, check=True, timeout=300)
    code = "import importlib.util as u; print(u.find_spec('sglang').submodule_search_locations[0])"
    where = subprocess.run(
        [python, "-c", code], env=env, check=True, capture_output=True, text=True, timeout=60
    )
    ((version, real),) = read(file).items()
    assert (version, len(real)) == ("0.5.23", 531)
    assert differences(extract(Path(where.stdout.strip()).parent), real) == []
