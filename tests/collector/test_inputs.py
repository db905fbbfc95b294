"""Input that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from collector.stub import Stub

from configurator.collector.collecting import collect
from configurator.collector.inputs import CollectError, usable_url


@pytest.mark.parametrize(
    "url",
    ["", "localhost:30000", "ftp://h/x", "file:///etc/passwd", "http://", "http://h:99999",
     "http://h:1/?q=1", "http://a b:1", "http://me:pw@h:1"],
)  # fmt: skip
def test_unusable_urls(url: str) -> None:
    with pytest.raises(CollectError) as caught:
        usable_url(url)
    assert "\n" not in str(caught.value)
    assert "pw@" not in str(caught.value)


def test_a_url_loses_its_last_slash() -> None:
    assert usable_url("http://[::1]:30000/") == "http://[::1]:30000"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"level": 0}, "level 0, concurrency 1, time-out 60 s: level is 1 to 3"),
        ({"concurrency": 0}, "concurrency 0"),
        ({"timeout_s": 0}, "time-out 0 s"),
        ({"api_key": "a\nb"}, "the API key cannot be used: it has 2 lines"),
        ({"logs": {0: "/nowhere.log"}}, "log /nowhere.log is not a file"),
        ({"reports": {0: "/nowhere"}}, "reports /nowhere is not a directory"),
    ],
)
def test_unusable_arguments(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(CollectError, match=message):
        collect({0: "http://127.0.0.1:1"}, tmp_path / "out", **more)
    assert not (tmp_path / "out").exists()


def test_evidence_is_not_mixed(stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("{}")
    with pytest.raises(CollectError, match="is not empty; give a new directory"):
        collect({0: stub.url}, tmp_path)
    with pytest.raises(CollectError, match="cannot be used"):
        collect({0: stub.url}, tmp_path / "old.json")
