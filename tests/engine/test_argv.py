"""Reading a command line as the engine's parser does."""

from __future__ import annotations

import random
from functools import cache

import pytest
from built_parser import build, verdict
from corpus import SAMPLED, commands, found_by, offenders, unknown

from configurator.engine.argv import Parsed, parse
from configurator.engine.catalogue import Catalogue, Flag, load_catalogue
from configurator.engine.records import Entry

RELEASES = ("0.5.9", "0.5.20", "0.5.23")


@cache
def catalogue(version: str) -> Catalogue:
    found = load_catalogue(version)
    assert found is not None
    return found


SMALL = Catalogue.of(
    "1.0",
    [
        Flag("model-path", ("model",), "str", required=True),
        Flag("tp-size", ("tensor-parallel-size",), "int"),
        Flag("max-bs-decode", type="int"),
        Flag("max-bs-prefill", type="int"),
        Flag("bs", type="int", nargs="+"),
        Flag("lora", type="str", nargs="*"),
        Flag("pair", type="str", nargs="2"),
        Flag("maybe", type="str", nargs="?"),
        Flag("metrics"),
        Flag("backend", type="str", choices=("a", "b")),
        Flag("width", type="int", choices=("1", "2")),
        Flag("extra", type="json"),
        Flag("tokens", type="size"),
        Flag("gone", refused=True, deprecated="--metrics"),
    ],
)


def read(*words: str, unknown: frozenset[int] = frozenset(), serve: bool = False) -> Parsed:
    return parse(["--model", "m", *words], SMALL, unknown, serve=serve)


def errors(*words: str) -> list[tuple[str, str, int | None]]:
    return [(e.kind, e.name, e.index) for e in read(*words).errors]


@pytest.mark.parametrize("version", RELEASES)
def test_real_commands_as_the_real_parser_judges_them(version: str) -> None:
    """Accepted or not, and every offending option, for each of 208 public commands."""
    assert len(commands()) == 208
    for row in commands():
        truth = row["truth"][version]
        parsed = parse(row["argv"], catalogue(version), unknown(row["argv"]))
        assert parsed.accepted == truth["accepted"], (row["id"], parsed.errors, truth)
        assert found_by(parsed) == offenders(truth["errors"]), row["id"]


def test_how_many_real_commands_each_release_starts() -> None:
    """The digits were worked out by another extraction of the same wheels."""
    for row in commands():
        digits = "".join(
            str(int(parse(row["argv"], catalogue(v), unknown(row["argv"])).accepted))
            for v in SAMPLED
        )
        assert digits == row["static_accepted"], row["id"]


def mutated(argv: list[str], chance: random.Random, known: Catalogue) -> list[str]:
    """A command with one thing wrong with it, or right in another way."""
    words = list(argv)
    at = chance.randrange(len(words))
    names = sorted(known.flags)
    match chance.randrange(9):
        case 0:
            del words[at]
        case 1:
            words[at] = words[at][: max(3, len(words[at]) - chance.randrange(1, 6))]
        case 2:
            letter = chance.randrange(len(words[at]))
            words[at] = words[at][:letter] + "x" + words[at][letter + 1 :]
        case 3:
            words.insert(at, f"--{chance.choice(names)}")
        case 4:
            words.insert(at, f"--{chance.choice(names)}={chance.choice(['1', 'x', '', '-1'])}")
        case 5:
            words.insert(at, chance.choice(["-1", "stray", "two words", "--", "-x", "-", "", "7k"]))
        case 6:
            words[at] = words[at].replace("-", "_")
        case 7:
            words[at : at + 2] = ["=".join(words[at : at + 2])]
        case _:
            words += [f"--{chance.choice(names)}", chance.choice(["1", "0.5", "auto", "[]", "1e3"])]
    return words


@pytest.mark.parametrize("version", RELEASES)
def test_mutations_are_flagged_exactly_where_argparse_refuses(version: str) -> None:
    known = catalogue(version)
    parser = build(known)
    chance = random.Random(f"mutations of {version}")
    refused = 0
    for _ in range(500):
        row = chance.choice(commands())
        argv = [word for word in row["argv"] if "$" not in word]
        words = mutated(argv, chance, known)
        if {"-h", "--help", "--h", "--he", "--hel"}.intersection(words):
            continue
        says = verdict(parser, words)
        parsed = parse(words, known)
        assert parsed.accepted == (says is None), (words, says, parsed.errors)
        refused += says is not None
    assert 100 < refused < 500


def test_a_good_command_line() -> None:
    parsed = read("--tp-size", "8", "--bs", "1", "2", "--metrics", "--backend=a", "--maybe")
    assert parsed.accepted
    assert [(o.name, o.values, o.index, o.joined) for o in parsed.options] == [
        ("model", ("m",), 0, False),
        ("tp-size", ("8",), 2, False),
        ("bs", ("1", "2"), 4, False),
        ("metrics", (), 7, False),
        ("backend", ("a",), 8, True),
        ("maybe", (), 9, False),
    ]
    assert parsed.options[0].canonical == "model-path"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--tp", "x"], [("value", "tp", 3)]),
        (["--max-bs", "8"], [("ambiguous", "max-bs", 2)]),
        (["--zzz", "8", "--yyy"], [("unknown", "zzz", 2), ("unknown", "yyy", 4)]),
        (["--tp-size"], [("count", "tp-size", 2)]),
        (["--pair", "a"], [("count", "pair", 2)]),
        (["--pair", "a", "b", "c"], [("unknown", "c", 5)]),
        (["--metrics", "yes"], [("unknown", "yes", 3)]),
        (["--metrics=yes"], [("count", "metrics", 2)]),
        (["--backend", "c"], [("choice", "backend", 3)]),
        (["--backend=c"], [("choice", "backend", 2)]),
        (["--width", "3"], [("choice", "width", 3)]),
        (["--extra", "{"], [("value", "extra", 3)]),
        (["--tokens", "1.5Ki"], [("value", "tokens", 3)]),
        (["--gone"], [("refused", "gone", 2)]),
        (["--bs"], [("count", "bs", 2)]),
        (["--bs", "1", "x"], [("value", "bs", 4)]),
        (["--", "--metrics"], [("unknown", "--metrics", 3)]),
        (["-x", "1"], [("unknown", "-x", 2)]),
        (["--tp-size", "--metrics"], [("count", "tp-size", 2)]),
    ],
)
def test_what_is_refused_and_where(
    words: list[str], expected: list[tuple[str, str, int | None]]
) -> None:
    assert errors(*words) == expected


@pytest.mark.parametrize(
    "words",
    [
        ["--width", "02"], ["--tokens", "2k"], ["--tokens", "-1"], ["--lora"], ["--extra", "{}"],
        ["--tensor-parallel-size=4"], ["--tens", "4"], ["--tp-size", "-1"], ["--maybe", "x"],
    ],
)  # fmt: skip
def test_what_is_taken(words: list[str]) -> None:
    assert errors(*words) == []


def test_all_errors_are_said_at_once_in_the_order_of_the_words() -> None:
    parsed = parse(["--max-bs", "1", "--zzz", "--backend", "c", "stray"], SMALL)
    assert [e.kind for e in parsed.errors] == [
        "ambiguous", "unknown", "choice", "unknown", "required",
    ]  # fmt: skip
    assert parsed.errors[-1].name == "model-path"


def test_words_that_nobody_can_know_are_not_judged() -> None:
    assert read("--tp-size", "${TP}", unknown=frozenset({3})).accepted
    assert read("$EXTRA", unknown=frozenset({2})).accepted
    assert not read("--zzz=${TP}", unknown=frozenset({2})).accepted
    # An unknown word may hold the model.
    assert parse(["$ARGS"], SMALL, frozenset({0})).accepted
    assert not parse(["--tp-size", "$TP"], SMALL, frozenset({1})).accepted


SERVING = Catalogue.of(
    "1.1",
    [*{f.name: f for f in SMALL.flags.values()}.values(), Flag("config", type="str")],
    entry=Entry(True, True, ("kind",), ("model-path", "model"), True),
)


def served(*words: str) -> list[tuple[str, str]]:
    return [(e.kind, e.name) for e in parse(words, SERVING, serve=True).errors]


def test_serve_takes_the_model_as_its_first_word_only() -> None:
    parsed = parse(["some/model", "--tp-size", "2"], SERVING, serve=True)
    assert (parsed.accepted, parsed.positionals) == (True, (0,))
    assert not parse(["some/model", "--tp-size", "2"], SERVING).accepted
    assert served("--tp-size", "2", "some/model") == [
        ("unknown", "some/model"), ("required", "model-path"),
    ]  # fmt: skip
    assert served("some/model", "other") == [("unknown", "other")]
    assert served("--kind", "x", "some/model", "--metrics") == []
    assert not parse(["some/model"], SMALL, serve=True).accepted


def test_serve_takes_its_own_options_out() -> None:
    assert served("--model", "m", "--kind", "diffusion", "--metrics") == []
    assert parse(["--model", "m", "--kind", "x"], SERVING).errors[0].name == "kind"


def test_serve_looks_for_the_model_by_its_full_names() -> None:
    assert served("--model-pa", "m") == [("required", "model-path")]
    assert parse(["--model-pa", "m"], SERVING).accepted
    assert served("--model", "m") == []


def test_what_is_required_may_stand_in_a_file() -> None:
    assert parse(["--config", "a.yaml"], SERVING).accepted
    assert served("--config", "a.yaml") == [("required", "model-path")]
    assert not parse(["--metrics"], SERVING).accepted


def test_of_several_the_last_counts() -> None:
    parsed = read("--tp", "2", "--tensor-parallel-size", "4")
    last = parsed.last("tp-size")
    assert last is not None
    assert last.values == ("4",)
    assert parsed.last("backend") is None


def test_without_a_catalogue_options_are_read_and_not_judged() -> None:
    parsed = parse(["--a", "1", "2", "--b=3", "-c"], None)
    assert parsed.accepted
    assert [(o.canonical, o.values) for o in parsed.options] == [
        ("a", ("1", "2")),
        ("b", ("3",)),
        ("-c", ()),
    ]
