"""A plan in a terminal."""

from __future__ import annotations

import dataclasses

import plans
import pytest

from configurator.plan.figures import exact
from configurator.plan.model import Plan
from configurator.plan.opinion import Opinion
from configurator.report.plan_sheet import Sheet
from configurator.report.plan_text import print_plan

Capture = pytest.CaptureFixture[str]


def printed(
    capsys: Capture, plan: Plan, monkeypatch: pytest.MonkeyPatch, *, columns: int = 100,
    verbose: bool = False, **sheet: object,
) -> list[str]:  # fmt: skip
    monkeypatch.setenv("COLUMNS", str(columns))
    whole = Sheet(plan, plan.name, "dgx-spark, 1 replica of 1 GPU", **sheet)  # type: ignore[arg-type]
    print_plan(whole, verbose=verbose)
    return capsys.readouterr().out.splitlines()


def row(lines: list[str], label: str) -> str:
    """The first line of that label, with what is beside it, in single spaces."""
    return " ".join(next(line for line in lines if line.strip().startswith(label)).split())


def test_the_verdict_comes_first_with_its_values(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, plans.plan(), monkeypatch)
    assert lines[0] == "ling-3.0-flash-spark on dgx-spark, 1 replica of 1 GPU"
    assert lines[1].startswith("fits: 1 request of the profile's context at once; 1,884,000 tokens")
    assert " ".join(" ".join(lines[3:5]).split()) == (
        "decode of 1 request: 48.9 to 66.1 tok/s at 2.68 tokens accepted a step; speculation pays "
        "above 2.05 (1.80 to 2.40) accepted"
    )


def test_every_figure_of_memory_has_its_formula_and_source(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, plans.plan(), monkeypatch)
    assert row(lines, "weights") == "weights 67.3 GB, 52 % the sum of its parts [2]"
    assert row(lines, "KV cache") == "KV cache 15.2 GB, 12 % 0.68 x 129.9 GB - 69.0 GB - 4.1 GB [2]"
    assert row(lines, "CUDA graphs").startswith("CUDA graphs 1.20 GB (0.72 to 1.68), 1 %")
    assert row(lines, "--mem-fraction-static").startswith(
        "--mem-fraction-static 0.57 to 0.80 works; 0.68 is asked for"
    )
    assert row(lines, "breaks first").endswith("max-running-requests: a second request waits")
    assert "  [2] model entry ling-3.0-flash-fp4" in lines


def test_what_does_not_fit_says_by_how_much_and_what_would(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = (*plans.memory().shares[:-1], dataclasses.replace(plans.memory().shares[2]))
    tight = plans.memory(
        fits=False, fraction=None, tokens=None, requests=None, context=None,
        shares=(*shares, dataclasses.replace(shares[0])),
        breaks_first="the start: weights twice", remarks=("a fact",),
    )  # fmt: skip
    lines = printed(
        capsys, plans.plan(memory=tight), monkeypatch, refused=("MEM101",), status="unverified"
    )
    assert lines[1].startswith("does not fit: the start: weights twice; no --mem-fraction-static")
    assert lines[5] == "  - a fact"
    assert lines[6] == (
        "  - validation refuses it (MEM101): configurator validate ling-3.0-flash-spark"
    )
    assert lines[0].endswith("[unverified: nobody has yet run this composition as a whole]")
    assert row(lines, "too much").startswith("too much 56.4 GB")
    assert row(lines, "--mem-fraction-static").endswith("none works; 0.68 is asked for")
    assert row(lines, "token capacity") == "token capacity not known"


def test_a_fraction_that_would_do_is_named(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = plans.memory(fits=False, breaks_first="the start: nothing is left for the cache")
    lines = printed(capsys, plans.plan(memory=tight), monkeypatch)
    assert lines[1].startswith("does not fit: the start: nothing is left for the cache; ")
    assert lines[1].endswith("; --mem-fraction-static 0.57 to 0.80 would do")


def test_nothing_unknown_is_a_number(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(capsys, plans.unknown_plan(), monkeypatch)
    assert lines[1] == ("cannot be told whether it fits: memory: the model entry has no weights_gb")
    assert "  - decode step: no layers in the model entry" in lines
    assert "  - number and width of attention heads" in lines
    digits = [line for line in lines[1:] if any(c.isdigit() for c in line)]
    assert digits == []


def test_a_token_is_a_range_with_what_it_rests_on(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, plans.plan(), monkeypatch)
    assert row(lines, "a token takes") == (
        "a token takes 15.1 to 20.5 ms (48.9 to 66.1 tok/s a request)"
    )
    assert row(lines, "breaks even at").startswith(
        "breaks even at 2.05 (1.80 to 2.40) accepted tokens a step"
    )
    assert row(lines, "with 2.68 accepted") == "with 2.68 accepted 1.12 to 1.49 x plain"
    assert row(lines, "measured steps").endswith("ling-3.0-flash-fp4-spark-baseline")
    assert row(lines, "fp8-lm-head").startswith("fp8-lm-head 17.8 ms (15.1 to 20.5) with, 19.1 ms")


def test_reads_stand_by_class_and_pass(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(capsys, plans.plan(), monkeypatch)
    assert row(lines, "plain decode") == "plain decode draft x3 verify 4 wide"
    assert row(lines, "routed experts mxfp4") == "routed experts mxfp4 1.030"
    assert row(lines, "LM head fp8") == "LM head fp8 0.400 0.400"
    assert row(lines, "GB in all") == "GB in all 4.050 0.510 7.560"


def test_without_acceptance_nothing_is_said_of_a_token(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = plans.step(accepted=None, per_token=None, throughput=None)
    lines = printed(capsys, plans.plan(step=blind), monkeypatch)
    assert "40.5 to 54.7 ms / accepted tokens a step" in row(lines, "a token takes")
    assert "--accepted N" in " ".join(" ".join(lines).split())
    lost = plans.step(step=None, accepted=None, per_token=None, throughput=None, ratio=None)
    lines = printed(capsys, plans.plan(step=lost), monkeypatch)
    assert row(lines, "a token takes").startswith("a token takes not known")


def test_verbose_has_the_formula_of_every_read(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = printed(capsys, plans.plan(), monkeypatch)
    long = printed(capsys, plans.plan(), monkeypatch, verbose=True)
    assert "41 x 31.3 of 512" not in " ".join(short)
    assert "41 x 31.3 of 512" in " ".join(long)
    assert "118.9e9 x 0.531 B" in " ".join(long)
    assert short[-1] == "formulas of every part and read: --verbose"


@pytest.mark.parametrize("columns", [20, 60, 80, 100, 200])
@pytest.mark.parametrize("verbose", [True, False])
def test_no_line_is_wider_than_the_terminal(
    columns: int, verbose: bool, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(capsys, plans.plan(), monkeypatch, columns=columns, verbose=verbose)
    assert max(map(len, lines)) <= max(60, min(columns, 120))
    assert not [line for line in lines if line != line.rstrip()]


def test_names_of_others_do_not_steer_the_terminal(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = dataclasses.replace(plans.memory().shares[0], name="wei\x1b[31mghts")
    memory = plans.memory(shares=(share,), breaks_first="at \x1b]0;x\x07 some point")
    text = "\n".join(printed(capsys, plans.plan(memory=memory), monkeypatch))
    assert "\x1b]" not in text
    assert "\x07" not in text
    assert "wei [31mghts" in text


def test_a_second_opinion_stands_beside_ours(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = Opinion(exact(0.0061, "s", "mean_tpot_ms", "aisimulate, data of 0.5.14"))
    lines = printed(capsys, plans.plan(), monkeypatch, opinion=theirs)
    plain = [line for line in lines if "6.10 ms" in line]
    assert " ".join(plain[0].split()).startswith(
        "plain decode 6.10 ms; ours 23.2 ms (19.7 to 26.7)"
    )
    lines = printed(capsys, plans.plan(), monkeypatch, opinion=Opinion(note="it is not here"))
    assert "  - it is not here" in lines
