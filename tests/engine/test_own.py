"""Catalogues of one's own beside the shipped ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.engine.catalogue import (
    Catalogue,
    Flag,
    available_versions,
    history,
    load_catalogue,
    own_path,
    shipped,
    spans,
    stores,
    versions_with,
)
from configurator.engine.store import Store
from configurator.errors import ConfiguratorError


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONFIGURATOR_ENGINES", str(tmp_path))
    return tmp_path / "catalogue.json.xz"


def test_a_version_of_ones_own_is_found(own: Path) -> None:
    assert load_catalogue("0.5.24.dev3") is None
    Store(own).write([Catalogue.of("0.5.24.dev3", [Flag("new-one"), Flag("tp-size", type="int")])])
    known = load_catalogue("0.5.24.dev3")
    assert known is not None
    assert set(known.flags) == {"new-one", "tp-size"}
    assert available_versions()[-2:] == ("0.5.23", "0.5.24.dev3")
    assert versions_with("flags", "new-one") == "0.5.24.dev3"
    assert versions_with("flags", "tp-size") == "0.5.1 to 0.5.24.dev3"
    assert available_versions()[:-1] == shipped().versions


def test_a_version_of_ones_own_stands_before_the_shipped_one(own: Path) -> None:
    Store(own).write([Catalogue.of("0.5.23", [Flag("only-mine")])])
    known = load_catalogue("0.5.23")
    assert known is not None
    assert set(known.flags) == {"only-mine"}
    assert versions_with("flags", "tp-size") == "0.5.1 to 0.5.22"
    assert [v for v, _ in history("flags", "only-mine")] == [("0.5.23",)]


def test_a_changed_file_is_read_again(own: Path) -> None:
    Store(own).write([Catalogue.of("9.1", [])])
    assert load_catalogue("9.1") is not None
    Store(own).write([Catalogue.of("9.2", [Flag("x")])])
    assert load_catalogue("9.2") is not None
    assert load_catalogue("9.1") is not None
    own.unlink()
    assert load_catalogue("9.1") is None


def test_where_they_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CONFIGURATOR_ENGINES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert own_path() == tmp_path / "configurator" / "engines" / "catalogue.json.xz"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert own_path() == Path("/home/someone/.config/configurator/engines/catalogue.json.xz")
    assert own_path(Path("d")) == Path("d/catalogue.json.xz")
    monkeypatch.setenv("CONFIGURATOR_ENGINES", "")
    assert own_path() is None
    assert stores() == (shipped(),)


def test_a_broken_file_is_said(own: Path) -> None:
    own.write_bytes(b"not a catalogue")
    with pytest.raises(ConfiguratorError, match=r"CAT004 .*remove it and add its sources again"):
        load_catalogue("0.5.23")


def test_spans_are_unbroken_runs() -> None:
    assert spans(()) == []
    assert spans({"0.5.1"}) == [("0.5.1", "0.5.1")]
    assert spans({"0.5.1", "0.5.1.post1", "0.5.22", "0.5.23", "unknown"}) == [
        ("0.5.1", "0.5.1.post1"), ("0.5.22", "0.5.23"),
    ]  # fmt: skip
