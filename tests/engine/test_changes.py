"""Differences between versions, and where a name is known."""

from __future__ import annotations

import pytest

from configurator.engine.catalogue import Catalogue, load_catalogue, shipped
from configurator.engine.changes import Change, Sighting, difference, known_names, sightings
from configurator.engine.records import (
    Architecture,
    Flag,
    Name,
    Retired,
    Variable,
    is_replacement,
)

OLD = Catalogue.of(
    "1",
    [
        Flag("kept", ("k",), "int", 1), Flag("gone"), Flag("old-name", ("new-name",)),
        Flag("chosen", (), "str", None, ("a", "b")), Flag("zero", (), "int", 0),
    ],
    [Variable("V", "bool", False), Variable("GONE", "int", 3)],
    [],
    ["READ", "SOON"],
    [Name("requirement", "torch", "==1"), Name("script", "s")],
    [Architecture("A"), Architecture("B")],
)  # fmt: skip
NEW = Catalogue.of(
    "2",
    [
        Flag("kept", ("k",), "int", 2), Flag("fresh"), Flag("new-name", ("old-name",)),
        Flag("chosen", (), "str", None, ("c", "b", "a")), Flag("zero", (), "int", False),
    ],
    [Variable("V", "bool", True)],
    [Retired("SOON", "LATER")],
    ["READ", "OTHER"],
    [Name("requirement", "torch", "==2")],
    [Architecture("A", drafts=("D",), shares_head="weight")],
)  # fmt: skip


def test_every_difference() -> None:
    assert difference(OLD, NEW) == [
        Change("env", "added", "OTHER"),
        Change("env", "changed", "SOON", "", "retired", None, "LATER"),
        Change("env", "changed", "V", "", "default", False, True),
        Change("env", "removed", "GONE"),
        Change("flags", "added", "fresh"),
        Change("flags", "changed", "chosen", "", "choices", ("a", "b"), ("c", "b", "a")),
        Change("flags", "changed", "kept", "", "default", 1, 2),
        Change("flags", "changed", "zero", "", "default", 0, False),
        Change("flags", "removed", "gone"),
        Change("names", "changed", "A", "architecture", "detail", "",
               "draft D, shares the head's weight"),
        Change("names", "changed", "torch", "requirement", "detail", "==1", "==2"),
        Change("names", "removed", "B", "architecture"),
        Change("names", "removed", "s", "script"),
    ]  # fmt: skip


def test_nothing_changes_between_a_version_and_itself() -> None:
    assert difference(OLD, OLD) == []


def test_the_biggest_break() -> None:
    old, new = load_catalogue("0.5.19"), load_catalogue("0.5.20")
    assert old is not None
    assert new is not None
    removed = {
        c.name: c.note
        for c in difference(old, new)
        if (c.section, c.action) == ("flags", "removed")
    }
    assert removed["cuda-graph-max-bs"] == "--cuda-graph-max-bs-decode"
    assert removed["enable-expert-distribution-metrics"].startswith("--enable-expert-distribution")
    assert len(removed) == 23


@pytest.mark.parametrize(
    ("name", "what", "where", "notes"),
    [
        ("--cuda-graph-bs", "option", "0.5.1 to 0.5.19",
         ("deprecated since 0.5.14: use --cuda-graph-bs-decode",)),
        ("--tp-size", "option", "0.5.1 to 0.5.23",
         ("another name of --tensor-parallel-size in 0.5.1 to 0.5.13.post1",)),
        ("SGLANG_LOG_GC", "variable", "0.5.4.post1 to 0.5.23", ()),
        ("SGL_LOG_GC", "variable, read as SGLANG_LOG_GC", "0.5.4.post1 to 0.5.23", ()),
        ("SGLANG_CACHE_DIT_ANYTHING", "variable read outside the registry", "0.5.7 to 0.5.23", ()),
        ("NEXTN", "speculative algorithm, another name of EAGLE", "0.5.1 to 0.5.23", ()),
        ("humming", "value of --moe-runner-backend", "0.5.16 to 0.5.23", ()),
        ("humming-kernels", "requirement [cu13]==0.1.12", "0.5.19 to 0.5.23", ()),
        ("BailingMoeV3ForCausalLM",
         "architecture (draft BailingMoeForCausalLMNextN, shares the head's weight)",
         "0.5.19 to 0.5.23", ()),
    ],
)  # fmt: skip
def test_where_a_name_is_known(name: str, what: str, where: str, notes: tuple[str, ...]) -> None:
    found = {s.what: s for s in sightings(name)}
    assert found[what].where == where
    assert found[what].notes == notes


def test_a_refused_option_says_why() -> None:
    (found,) = sightings("enable-ep-moe")
    assert found.where == "0.5.1 to 0.5.4"
    assert found.notes[0] == "deprecated in 0.5.1 to 0.5.2"
    assert found.notes[1].startswith("refused since 0.5.3: NOTE: --enable-ep-moe is deprecated.")


@pytest.mark.parametrize(
    ("said", "is_one"),
    [
        ("--cuda-graph-bs-decode", True),
        ("--cuda-graph-backend-prefill=disabled", True),
        ("--attn-dp-size <dp-size>", True),
        ("--mine is no longer supported. Use --other.", False),
        ("NOTE: --mine is deprecated.", False),
        ("", False),
    ],
)
def test_a_sentence_about_an_option_is_no_replacement(said: str, is_one: bool) -> None:
    assert is_replacement(said) is is_one
    assert Flag("mine", deprecated=said or None).replaced is is_one


def test_what_an_engine_says_of_an_option_in_a_sentence_is_repeated_as_one() -> None:
    (found,) = sightings("enable-expert-distribution-metrics")
    assert found.notes[-1].startswith(
        "refused since 0.5.18: --enable-expert-distribution-metrics is no longer supported. Use "
    )


def test_what_is_known_nowhere() -> None:
    assert sightings("SGLANG_ENABLE_FP8_LM_HEAD") == []
    assert sightings("--humming") == [], "with dashes only options are meant"
    assert "SGLANG_ENABLE_FP8_LM_HEAD" not in known_names()
    assert {"--tp-size", "humming", "SGLANG_LOG_GC", "torch"} < known_names()


def test_a_sighting_names_its_versions() -> None:
    versions = shipped().versions[:2]
    assert Sighting("option", versions).where == "0.5.1 to 0.5.1.post1"
