"""What a person sees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from configurator.errors import Position
from configurator.evidence.model import ServerState
from configurator.judge import Judgement
from configurator.report.json_report import judgement as as_json
from configurator.report.terminal import print_judgement, print_validations
from configurator.validate import Diagnostic, Validation
from configurator.verdicts import Answer, Observation, Rung, Verdict

Capture = pytest.CaptureFixture[str]


def finding(path: Path, severity: str = "error", suppressed: str | None = None) -> Diagnostic:
    return Diagnostic(
        code="MEM901",
        name="too-much",
        severity=severity,  # type: ignore[arg-type]
        message="0.97 leaves 3 % of memory",
        remedy="set 0.88",
        position=Position(str(path), 2, 3),
        path="memory.mem_fraction_static",
        source="a test",
        suppressed=suppressed,
    )


def test_a_finding_has_place_excerpt_fact_and_remedy(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("memory:\n  mem_fraction_static: 0.97\n")
    code = print_validations([Validation("p", None, (finding(path),))])
    out = capsys.readouterr().out
    assert code == 1
    assert f"{path}:2:3: error MEM901 too-much" in out
    assert "  2 |   mem_fraction_static: 0.97\n    |   ^\n" in out
    assert "  0.97 leaves 3 % of memory\n  remedy: set 0.88\n" in out
    assert "p: 1 error" in out


def test_quiet_and_suppressed_findings_are_counted_but_not_shown(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("a:\n  b: 1\n")
    findings = (finding(path, "info"), finding(path, "warning", suppressed="measured, fits"))
    assert print_validations([Validation("p", None, findings)], "warning", quiet=True) == 0
    out = capsys.readouterr().out
    assert "MEM901" not in out
    assert "p: clean (1 info, 1 suppressed)" in out


def test_control_characters_of_a_file_do_not_reach_the_terminal(
    tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("a:\n  b: '\x9b31m'\n")
    print_validations([Validation("p", None, (finding(path),))])
    assert "\x9b" not in capsys.readouterr().out


def judged(answer: Answer, state: str = "ready") -> Judgement:
    seen = Observation(
        "report", "draft lm_head method", "UnquantizedEmbeddingMethod", Rung.BUILT,
        "reports/probe-tp0.json#/drafts/0/lm_head",
    )  # fmt: skip
    verdict = Verdict(
        mechanism="lm-head-shared", kind="mechanism", answer=answer, rung=Rung.BUILT,
        required=True, summary="the draft aliases only the weight",
        remedy="share the whole module", evidence=(seen,), conflicts=("log says 4.0",),
    )  # fmt: skip
    failed = ServerState(state, "loading weights", "AttributeError: x", "update")  # type: ignore[arg-type]
    return Judgement(states={0: failed}, verdicts=(verdict,))


def test_a_refutation_shows_what_it_stands_on(capsys: Capture) -> None:
    judgement = judged(Answer.REFUTED)
    assert judgement.exit_code == 1
    print_judgement(judgement, "mine", "unverified")
    out = capsys.readouterr().out
    assert "mine [unverified:" in out
    assert "server 0: ready\n" in out
    assert "REFUTED        lm-head-shared  built" in out
    assert "remedy: share the whole module" in out
    assert "conflict: log says 4.0" in out
    assert "draft lm_head method = UnquantizedEmbeddingMethod" in out
    assert "(reports/probe-tp0.json#/drafts/0/lm_head)" in out
    assert "not good: lm-head-shared" in out


def test_a_server_that_failed_says_its_phase_and_reason(capsys: Capture) -> None:
    judgement = judged(Answer.PROVEN, "failed")
    assert judgement.exit_code == 1
    print_judgement(judgement, "mine", None)
    out = capsys.readouterr().out
    assert "server 0: failed in phase: loading weights" in out
    assert "reason: AttributeError: x" in out
    assert "not good: server 0 is failed" in out


def test_json_of_a_judgement() -> None:
    data = json.loads(as_json(judged(Answer.REFUTED), "mine", None))
    assert data["server"]["state"] == "ready"
    (verdict,) = data["verdicts"]
    assert (verdict["verdict"], verdict["rung"], verdict["required"], verdict["fails"]) == (
        "REFUTED", "built", True, True,
    )  # fmt: skip
    assert verdict["evidence"][0]["locator"] == "reports/probe-tp0.json#/drafts/0/lm_head"
    assert data["exit_code"] == 1


def test_good_names_the_replicas_that_were_not_looked_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_judgement(Judgement({0: ServerState("ready")}, (), unseen=(1, 3)), "some", None)
    said = capsys.readouterr().out
    assert "server 1: not looked at" in said
    assert said.splitlines()[-1] == "good so far, but no evidence of replicas 1, 3"


@pytest.mark.parametrize(
    ("answer", "required", "last"),
    [
        (Answer.PROVEN, True, "good"),
        (Answer.INCONCLUSIVE, True, "good so far, but not proven: lm-head-shared"),
        (
            Answer.REFUTED,
            False,
            "good so far, but lm-head-shared refuted, which does not count here",
        ),
    ],
)
def test_good_alone_is_said_only_where_nothing_is_open(
    capsys: Capture, answer: Answer, required: bool, last: str
) -> None:
    (verdict,) = judged(answer).verdicts
    asked = replace(verdict, required=required, on_refuted="fail" if required else "warn")
    judgement = Judgement({0: ServerState("ready")}, (asked,))
    assert judgement.exit_code == 0
    print_judgement(judgement, "mine", None)
    assert capsys.readouterr().out.splitlines()[-1] == last


HOSTILE = (
    "\x1b]0;pwn\x07\x1b[2J\x9b2J\u202eseen api_key=verysecretvalue1 hf_ABCDEFGHIJKLMNOPQRSTUVWX"
)


def hostile() -> Judgement:
    seen = Observation(
        "report", f"attention{HOSTILE}", f"triton{HOSTILE}", Rung.BUILT, f"a{HOSTILE}",
        f"excerpt{HOSTILE}", window=HOSTILE,
    )  # fmt: skip
    named = Observation("report", "SGLANG_API_KEY", "verysecretvalue2", Rung.BUILT)
    verdict = Verdict(
        mechanism="attention-backend", kind="mechanism", answer=Answer.REFUTED, rung=Rung.BUILT,
        required=True, summary=f"it is {HOSTILE}", remedy=f"set {HOSTILE}",
        evidence=(seen, named), conflicts=(f"log says {HOSTILE}",),
    )  # fmt: skip
    state = ServerState("failed", f"loading{HOSTILE}", f"error {HOSTILE}", f"mend {HOSTILE}")
    return Judgement(states={0: state}, verdicts=(verdict,))


def test_evidence_neither_steers_the_terminal_nor_shows_secrets(capsys: Capture) -> None:
    print_judgement(hostile(), f"mine{HOSTILE[:20]}", None)
    out = capsys.readouterr().out
    assert [c for c in out if not c.isprintable() and c != "\n"] == []
    assert "verysecretvalue" not in out
    assert "hf_ABC" not in out
    assert out.count("seen api_key=<redacted>") >= 6


def test_json_of_hostile_evidence_has_no_secrets_and_steers_nothing() -> None:
    text = as_json(hostile(), "mine", None)
    assert [c for c in text if not c.isprintable() and c != "\n"] == []
    assert "verysecretvalue" not in text
    assert "hf_ABC" not in text
    verdict = json.loads(text)["verdicts"][0]
    assert verdict["summary"].startswith("it is \x1b]0;pwn\x07\x1b[2J\x9b2J\u202eseen api_key=")
    assert verdict["evidence"][1]["value"] == "<redacted>"


def test_json_writes_half_a_character_by_its_number() -> None:
    verdict = Verdict(
        mechanism="x", kind="mechanism", answer=Answer.PROVEN, rung=None, required=True,
        summary="half \ud800", remedy="", evidence=(), conflicts=(),
    )  # fmt: skip
    text = as_json(Judgement({0: ServerState("ready")}, (verdict,)), "x", None)
    assert "half \\ud800" in text
    text.encode()


def test_an_endless_text_is_cut(capsys: Capture) -> None:
    state = ServerState("failed", "", "y" * 3_000_000, "mend it")
    print_judgement(Judgement({0: state}, ()), "mine", None)
    out = capsys.readouterr().out
    assert len(out) < 5000
    assert "(2996000 characters more)" in " ".join(out.split())
