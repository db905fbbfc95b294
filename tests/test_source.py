"""YAML with positions: what is read, and what is refused where."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from configurator.errors import ConfiguratorError, Position
from configurator.source import parse_source, read_source


def refused(text: str) -> tuple[str, str, str]:
    """Code, position and message of the one problem of a refused document."""
    with pytest.raises(ConfiguratorError) as caught:
        parse_source(text, "p.yaml")
    (problem,) = caught.value.problems
    return problem.code, str(problem.position), problem.message


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1),
        ("-7", -7),
        ("0x1F", 31),
        ("0o17", 15),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("on", "on"),
        ("no", "no"),
        ("12:30:45", "12:30:45"),
        ("2026-11-30", "2026-11-30"),
        ("1_000", "1_000"),
        ("0.5.23", "0.5.23"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("!!str 1", 1),
        ("9" * 60, "9" * 60),
    ],
)
def test_scalars_follow_the_core_schema(written: str, value: object) -> None:
    if written == "!!str 1":
        assert parse_source(f"a: {written}", "p.yaml").data == {"a": 1}
        return
    assert parse_source(f"a: {written}", "p.yaml").data == {"a": value}


def test_positions_of_keys_values_and_list_items() -> None:
    source = parse_source("a: 1\nb:\n  c: [x, y]\n", "p.yaml")
    assert source.locate(("b", "c")) == Position("p.yaml", 3, 6)
    assert source.locate(("b", "c"), key=True) == Position("p.yaml", 3, 3)
    assert source.locate(("b", "c", 1)) == Position("p.yaml", 3, 10)
    assert source.locate(("b", "missing")) is None
    assert source.nearest(("b", "missing", "deeper")) == (1, Position("p.yaml", 2, 1))
    assert source.nearest(("nowhere",)) == (0, Position("p.yaml", 1, 1))


def test_a_key_written_twice_names_both_places() -> None:
    code, position, message = refused("a:\n  b: 1\n  c: 2\n  b: 3\n")
    assert (code, position) == ("SCH003", "p.yaml:4:3")
    assert "'b'" in message
    assert "line 2" in message


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        ("a:\n\tb: 1\n", "SCH002", "p.yaml:2:1"),
        ("a: [1, 2\n", "SCH002", "p.yaml:2:1"),
        ("a: *nowhere\n", "SCH002", "p.yaml:1:4"),
        ("a: 1\n---\nb: 2\n", "SCH002", "p.yaml:2:1"),
        ("a: !!python/object:os.system x\n", "SCH004", "p.yaml:1:4"),
        ("<<: {a: 1}\n", "SCH004", "p.yaml:1:1"),
        ("? [a]\n: 1\n", "SCH004", "p.yaml:1:3"),
        ("a: \x07\n", "SCH002", "p.yaml:1:4"),
    ],
)
def test_refused_with_position(text: str, code: str, position: str) -> None:
    assert refused(text)[:2] == (code, position)


def test_tabs_get_a_remedy() -> None:
    with pytest.raises(ConfiguratorError, match="indent with spaces"):
        parse_source("a:\n\tb: 1\n", "p.yaml")


def test_aliases_are_read() -> None:
    assert parse_source("a: &x [1]\nb: *x\n", "p.yaml").data == {"a": [1], "b": [1]}


def test_documents_that_expand_without_end_are_refused() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
    )
    code, _, message = refused(bomb)
    assert code == "SCH009"
    assert "50,000 values" in message


def test_a_document_that_contains_itself_is_refused() -> None:
    assert refused("a: &a [*a]\n")[0] == "SCH009"


def test_deep_nesting_is_refused() -> None:
    assert refused("[" * 3000 + "]" * 3000)[0] == "SCH009"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match=r"SCH001 cannot read .*absent\.yaml"):
        read_source(tmp_path / "absent.yaml")


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfiguratorError, match="SCH001"):
        read_source(tmp_path)


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(ConfiguratorError, match=r"latin\.yaml:2:7: SCH002 byte 0xe9 is not UTF-8"):
        read_source(path)


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_source(path).data == {"a": 1}


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    path.write_text("# " + "x" * (1 << 20) + "\n")
    with pytest.raises(ConfiguratorError, match="larger than 1 MiB"):
        read_source(path)


@pytest.mark.parametrize(
    ("target", "fact"),
    [("/dev/zero", "is a device"), ("pipe", "is a pipe"), (".", "is a directory")],
)
def test_what_is_no_file_is_not_read(tmp_path: Path, target: str, fact: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.yaml").symlink_to(target)
    with pytest.raises(ConfiguratorError, match=rf"SCH001 .*/a\.yaml {fact}, not a file"):
        read_source(tmp_path / "a.yaml")
