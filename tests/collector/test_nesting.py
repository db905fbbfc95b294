"""JSON that is nested deep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from collector.stub import Stub, read

from configurator.collector.collecting import collect
from configurator.collector.nesting import MOST_NESTED
from configurator.collector.redaction import redact_json


def nested(levels: int) -> str:
    return '{"a": ' * levels + '{"api_key": "verysecretvalue1", "kept": [1, "x"]}' + "}" * levels


@pytest.mark.parametrize("levels", [100, 900])
def test_deep_json_loses_nothing_but_its_secrets(stub: Stub, tmp_path: Path, levels: int) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "deep.json").write_text(nested(levels))
    stub.info["deep"] = json.loads(nested(levels - 40))
    manifest = collect({0: stub.url}, tmp_path / "out", reports={0: folder})
    for name in ("reports/deep.json", "server_info.json"):
        text = (tmp_path / "out/replica-0" / name).read_text()
        read(tmp_path / "out/replica-0" / name)
        assert "kept" in text
        assert "verysecretvalue1" not in text
        assert any(f"{name} is nested deeper than 32 levels" in n for n in manifest["notes"])


def test_the_text_of_deep_json_is_json() -> None:
    value: Any = {"a": [1, None, True, '"x'], "b": {}, "c": [], "d": {"e": [[2.5], {"f": "g"}]}}
    for _ in range(MOST_NESTED):
        value = {"in": value}
    found = redact_json(value)
    for _ in range(MOST_NESTED):
        found = found["in"]
    inner: Any = value
    for _ in range(MOST_NESTED):
        inner = inner["in"]
    assert json.loads(found) == inner
