"""YAML for Kubernetes: every value arrives, whatever reads it, and names are names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from render.cluster_rules import expanded
from render.generated import VALUES
from stand_in import LIBRARY

from configurator.errors import ConfiguratorError
from configurator.render.manifests import LONGEST, documents, literal, stem_of
from configurator.resolve import resolve

MORE = [
    *("y", "Y", "N", "On", "1e3", "0o7", "1_000", "~", ".inf", "0b1", "12:30", "<<", "=", "-"),
    *("--", "---", "-m", "--tp", "/a/b", "a.b", "x"),
]
LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@pytest.mark.parametrize(
    "text",
    [*VALUES, "$", "$$", "$(A)", "$$(A)", "$$$(A)", "a$", "$(", "$()", "$(A", "$$A$", "$A$(A)$$"],
)
def test_a_literal_arrives_whatever_variables_there_are(text: str) -> None:
    assert expanded(literal(text), {"A": "x", "NAME": "y", "": "z", "touch pwned": "w"}) == text


def test_a_nul_and_half_a_character_are_refused() -> None:
    with pytest.raises(ConfiguratorError, match="RND001"):
        literal("a\0b")
    with pytest.raises(ConfiguratorError, match="RND001"):
        documents((), [{"env": [{"value": "\ud800"}]}])
    whole = {"text": "\U0001f600 \\ud800"}
    assert yaml.safe_load(documents((), [whole])) == whole


@pytest.mark.parametrize("text", [*VALUES, *MORE, "\x85", "\u2028"])
def test_every_reader_of_yaml_takes_a_string_as_one(text: str) -> None:
    (found,) = yaml.safe_load_all(documents(("a comment",), [{"list": [text], "text": text}]))
    assert found == {"list": [text], "text": text}
    # Readers of YAML 1.1 other than PyYAML take more words for numbers and truth values.
    written = documents((), [{"text": text}]).splitlines()[1].removeprefix("text: ")
    assert written[:1] in ('"', "|") or re.fullmatch(r"[A-Za-z/-][\w./-]*", written)
    assert written.lower() not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")


def stem(tmp_path: Path, name: str) -> str:
    path = tmp_path / "p.yaml"
    path.write_text(
        f"apiVersion: configurator/v1\nkind: Deployment\nname: '{name}'\n"
        "engine: {version: 0.5.23}\nhardware: {name: cpu, gpus: 1}\nmodel: {name: qwen3-8b}\n"
    )
    return stem_of(resolve(*LIBRARY.profile(str(path)), LIBRARY))


def test_names_are_labels_and_one_for_each_deployment(tmp_path: Path) -> None:
    names = ["plain", "Plain", "a.b", "a-b", "a_b", "a..b", "4x", "0", "9-", "a-", "x" * 30,
             "x" * 31, "x" * 119, "x" * 120, "A" * 120, "1" * 120, "ling-3.0-flash-spark",
             "abcdefghijklmnopqrstuvw-xyz-and-more"]  # fmt: skip
    stems = [stem(tmp_path, name) for name in names]
    assert len(set(stems)) == len(names)
    assert all(LABEL.fullmatch(one) and len(one) <= LONGEST for one in stems)
    assert stems == [stem(tmp_path, name) for name in names]
    assert stem(tmp_path, "plain") == "plain"
