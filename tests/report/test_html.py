"""The page: its structure, what it says, and that nothing of the evidence can break it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from replicas import log, spoken

from configurator.cli import run
from configurator.content import ROOT
from configurator.demo.server import recording
from configurator.deployment import Expectation
from configurator.evidence.model import (
    Evidence,
    Exchange,
    Head,
    Hooks,
    LogLine,
    Megakernel,
    ModelReport,
    MoeLayer,
    Replica,
    Report,
    ServerState,
)
from configurator.evidence.read import read_evidence
from configurator.judge import Judgement, expectation_from, judge
from configurator.loader import Validators
from configurator.report.html import Asked, page
from configurator.report.html_acceptance import charts
from configurator.report.html_text import clean
from configurator.verdicts import Answer, Observation, Rung, Verdict

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"
ASKED = ("fp8-lm-head", "lm-head-shared", "speculative-acceptance=2.0", "draft-tokens=4")
_VOID = {"meta", "link", "br", "line", "rect"}


@dataclass
class Element:
    """One element with all the text in it."""

    tag: str
    attributes: dict[str, str]
    inside: tuple[str, ...]
    """Ids, names, classes and tags of the elements around it."""
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self.parts).split())

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()


class Page(HTMLParser):
    """All elements of a page; refuses tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert not self._open, [element.tag for element in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        around = tuple(
            name
            for e in self._open
            for name in (
                e.attributes.get("id", ""),
                e.attributes.get("aria-labelledby", ""),
                *e.classes,
                e.tag,
            )
            if name
        )
        element = Element(tag, {name: value or "" for name, value in attrs}, around)
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self._open, tag
            assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.parts.append(data)

    def all(self, tag: str, name: str = "", inside: str = "") -> list[Element]:
        """Elements of a tag with a class or id, within an element with a class, id or tag."""
        return [
            e
            for e in self.elements
            if e.tag == tag
            and (not name or name in e.classes or e.attributes.get("id") == name)
            and (not inside or inside in e.inside)
        ]

    def one(self, tag: str, name: str = "", inside: str = "") -> Element:
        (found,) = self.all(tag, name, inside)
        return found

    def verdict(self, mechanism: str) -> str:
        """The id of the card of a mechanism."""
        for link in self.all("a", inside="answers"):
            if mechanism in link.text.split():
                return link.attributes["href"].removeprefix("#")
        raise AssertionError(f"no verdict on {mechanism}")

    def table(self, section: str) -> dict[str, list[str]]:
        """Rows of the tables of a section, by the text of their row header."""
        rows: dict[str, list[str]] = {}
        current: list[str] = []
        for e in self.elements:
            if section in e.inside and "tbody" in e.inside:
                if e.tag == "th":
                    current = rows.setdefault(e.text, [])
                elif e.tag == "td":
                    current.append(e.text)
        return rows


def rendered(evidence: Evidence, validators: Validators, asked: Sequence[str] = ()) -> str:
    expectations = tuple(expectation_from(text, validators.probes) for text in asked)
    judgement = judge(expectations, evidence, validators)
    return page(judgement, evidence, Asked(expectations, validators.probes, None, "again --now"))


def of_recording(name: str, validators: Validators) -> Page:
    return Page(rendered(read_evidence(recording(name)), validators, ASKED))


def of(*replicas: Replica, manifest: dict[str, object] | None = None) -> Evidence:
    return Evidence("evidence", replicas, manifest or {})


READY = ServerState("ready", "serving")


def test_a_healthy_server(validators: Validators) -> None:
    shown = of_recording("healthy", validators)
    assert shown.one("h1").text == "glm4moe-mtp-good"
    assert shown.one("p", "outcome").text == "✓ Good"
    assert shown.one("title", inside="head").text == "✓ Good: glm4moe-mtp-good"
    assert "All 10 proven." in shown.one("header").text
    about = dict(
        zip(
            [e.text for e in shown.all("dt", inside="about")],
            [e.text for e in shown.all("dd", inside="about")],
            strict=True,
        )
    )
    assert about["Engine"] == "sglang 0.5.23"
    assert about["Collected"] == "2026-11-30T05:23:46Z"
    assert about["Exit code"] == "0"
    assert about["Evidence of"] == "1 server, 1 in-engine report"
    assert not shown.all("h2", "to-do")
    assert shown.one("html").attributes["lang"] == "en"


def test_the_ladder_marks_the_rung_that_was_reached_and_the_one_that_proves(
    validators: Validators,
) -> None:
    shown = of_recording("sabotaged", validators)
    card = shown.verdict("speculative-acceptance")
    steps = [e for e in shown.all("li", inside=card) if "ladder" in e.inside]
    assert [(e.classes[0], e.text.split(":")[0].split()[-1]) for e in steps] == [
        ("reached", "●requested"),
        ("reached", "●resolved"),
        ("reached", "●built"),
        ("reached", "●captured"),
        ("top-rung", "✗executed"),
        ("open-rung", "effective"),
    ]
    (proof,) = [e for e in steps if "▲ proof" in e.text]
    assert proof is steps[4]


def test_a_sabotaged_server_says_what_is_wrong_first(validators: Validators) -> None:
    shown = of_recording("sabotaged", validators)
    assert shown.one("p", "outcome").text == "✗ Not good"
    assert "Refuted: lm-head-shared, speculative-acceptance." in shown.one("header").text
    names = [e.text for e in shown.all("h3") if e.attributes.get("id", "").startswith("v")]
    assert names == ["lm-head-shared", "speculative-acceptance", "fp8-lm-head", "draft-tokens"]
    todo = [e.text for e in shown.all("li", inside="card") if "ol" in e.inside][:2]
    assert todo[0].startswith("lm-head-shared: share the whole module")
    card = shown.verdict("lm-head-shared")
    assert "✗ REFUTED" in [e.text for e in shown.all("span", "mark", inside=card)]
    assert "fails the check" in [e.text for e in shown.all("span", "mark", inside=card)]
    assert "UnquantizedEmbeddingMethod" in shown.one("article", card).text
    assert "reports/probe-tp0-pp0-dp0.json" in shown.one("article", card).text
    (evidence,) = shown.all("details", inside=card)
    assert "open" in evidence.attributes
    invariant = shown.one("details", shown.verdict("output-not-corrupted"))
    assert "open" not in invariant.attributes
    assert "✓ PROVEN output-not-corrupted: 4 responses" in invariant.text


def test_the_histogram_has_its_numbers_and_the_floor(validators: Validators) -> None:
    shown = of_recording("sabotaged", validators)
    numbers = shown.table("acceptance")
    assert numbers["1"] == ["502", "99.4%"]
    assert numbers["2"] == ["3", "0.6%"]
    assert numbers["4"] == ["0", "0.0%"], "four tokens were proposed, none of them came"
    assert numbers["requests/001.json"] == ["profile", "127", "1.00"]
    texts = [e.text for e in shown.all("text", inside="svg")]
    assert "mean 1.01" in texts
    assert "floor 2" in texts
    assert "tokens committed by one verify step" in texts
    assert len(shown.all("rect", "bar")) == 4
    low, high = (float(shown.one("line", kind).attributes["x1"]) for kind in ("mean", "floor"))
    assert low < high


def test_requested_resolved_and_built_stand_beside_each_other(validators: Validators) -> None:
    shown = of_recording("sabotaged", validators)
    rows = shown.table("values")
    assert next(iter(rows)) == "speculative_algorithm"
    assert rows["speculative_algorithm"] == [
        "NEXTN", "EAGLE", "draft Glm4MoeForCausalLMNextN", "≈ reads differently",
    ]  # fmt: skip
    assert rows["speculative_num_draft_tokens"] == ["4", "4", "", "= same"]
    assert rows["kv_cache_dtype"] == ["", "auto", "bfloat16", "= same"]
    head = rows["LM head"][2]
    assert head.startswith("float8_e4m3fn, 512 by 256, Fp8HeadStub applied, scales weight_scale")
    assert rows["draft: LM head against target"][2] == ("the target's weight without its scales")


def test_an_argument_that_was_resolved_to_something_else_is_refuted(
    validators: Validators,
) -> None:
    evidence = read_evidence(RECORDINGS / "h200" / "standalone_tokens_adjusted")
    shown = Page(rendered(evidence, validators, ["speculative-acceptance"]))
    rows = shown.table("values")
    assert rows["speculative_num_draft_tokens"] == ["8", "4", "", "✗ refuted"]
    assert [name for name, cells in rows.items() if cells[3] == "✗ refuted"] == [
        "speculative_num_draft_tokens"
    ]


def test_a_server_that_failed(validators: Validators) -> None:
    evidence = read_evidence(RECORDINGS / "h200" / "bailing_nextn")
    shown = Page(rendered(evidence, validators, ["speculative-acceptance"]))
    header = shown.one("header").text
    assert shown.one("p", "outcome").text == "✗ Not good"
    assert "Server 0: failed." in header
    assert "has no attribute 'kv_lora_rank'" in header
    assert "takes the draft for an MLA model" in header
    assert "server.log:63" in header
    card = shown.one("article", shown.verdict("speculative-acceptance"))
    assert "INCONCLUSIVE" in card.classes
    assert "? INCONCLUSIVE" in card.text
    footer = shown.one("footer").text
    assert "No /server_info, so nothing is known of resolved arguments." in footer
    assert "No in-engine report" in footer
    assert shown.table("values")["mem_fraction_static"][3] == "? not shown"


def test_no_evidence_at_all(validators: Validators) -> None:
    replica = Replica(0, ServerState("unreachable", "", "connection refused", "check the port"))
    shown = Page(rendered(of(replica), validators, ["speculative-acceptance", "lm-head-shared"]))
    assert shown.one("p", "outcome").text == "✗ Not good"
    assert "connection refused" in shown.one("header").text
    assert not shown.all("svg")
    assert not shown.all("h2", "values")
    assert not shown.all("h2", "environment")
    unlooked = [e.text for e in shown.all("li", inside="footer")]
    assert "No log of the server." in unlooked
    assert "The environment of the engine's process is not known." in unlooked
    assert "The launch command is not known." in unlooked
    card = shown.verdict("lm-head-shared")
    steps = [e for e in shown.all("li", inside=card) if "ladder" in e.inside]
    assert [e.classes[0] for e in steps] == ["open-rung"] * 6


def test_good_is_not_said_when_something_is_open(validators: Validators) -> None:
    info = {"version": "0.5.23", "speculative_algorithm": "EAGLE"}
    replica = Replica(0, READY, server_info=info)
    text = rendered(of(replica), validators, ["speculative-acceptance"])
    shown = Page(text)
    assert shown.one("p", "outcome").text == "? Good so far, but"
    assert "Not proven: speculative-acceptance" in shown.one("header").text
    assert "Collectedtime not recorded" in shown.one("dl", "about").text


def judged(*verdicts: Verdict, replica: Replica | None = None, **more: object) -> str:
    evidence = of(replica or Replica(0, READY))
    states = {0: evidence.replicas[0].state}
    result = replace(Judgement(states, verdicts), **more)  # type: ignore[arg-type]
    return page(result, evidence, Asked((), {}))


def verdict(answer: Answer = Answer.REFUTED, **more: object) -> Verdict:
    seen = Observation("log", "runner", "triton", Rung.BUILT, "server.log:3")
    first = Verdict("moe-runner", "mechanism", answer, Rung.BUILT, True, "as seen", "a remedy")
    return replace(first, **{"evidence": (seen,), **more})  # type: ignore[arg-type]


def test_a_probe_that_crashed_is_no_verdict() -> None:
    shown = Page(judged(verdict(Answer.INCONCLUSIVE), crashed=True))
    assert shown.one("p", "outcome").text == "! Not judged"
    assert "fault of ours" in shown.one("header").text


def test_unseen_replicas_are_named() -> None:
    shown = Page(judged(verdict(Answer.PROVEN), unseen=(1, 2, 3)))
    assert shown.one("p", "outcome").text == "? Good so far, but"
    assert "No evidence of replicas 1, 2, 3." in shown.one("header").text
    assert "Replicas without any evidence: 1-3." in shown.one("footer").text


def test_a_refutation_that_does_not_count_is_still_said() -> None:
    shown = Page(judged(verdict(on_refuted="warn", required=False)))
    assert shown.one("p", "outcome").text == "? Good so far, but"
    assert "Moe-runner refuted, which does not count here." in shown.one("header").text
    assert "not required" in [e.text for e in shown.all("span", "mark")]


def test_evidence_shows_the_line_of_the_log_and_the_value_at_a_pointer() -> None:
    replica = Replica(
        0, READY, log=log("one", "two", "the layer runs <triton>"),
        server_info={"moe_runner_backend": "humming"},
    )  # fmt: skip
    pointed = Observation(
        "server_info", "runner", "as asked", Rung.RESOLVED, "server_info.json#/moe_runner_backend"
    )
    in_log = Observation("log", "runner", "triton", Rung.BUILT, "server.log:3")
    shown = Page(
        judged(verdict(evidence=(in_log, pointed), conflicts=("a says b",)), replica=replica)
    )
    card = shown.verdict("moe-runner")
    excerpts = [e.text for e in shown.all("pre", inside=card)]
    assert excerpts == [
        "[2026-11-30 09:00:00] the layer runs <triton>",
        "moe_runner_backend: humming",
    ]
    assert "≠ Sources disagree: a says b" in shown.one("article", card).text


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>\x00\x1b[31m\u202eevil\ud800'


def test_hostile_values_stay_text(validators: Validators) -> None:
    replica = Replica(
        0, ServerState("failed", HOSTILE, HOSTILE, HOSTILE, HOSTILE),
        command=f"--model-path {HOSTILE}",
        requested={"model_path": HOSTILE, HOSTILE: HOSTILE, "port": float("nan")},
        environment={HOSTILE: HOSTILE, "SGLANG_X": HOSTILE},
        server_info={"version": HOSTILE, "model_path": HOSTILE, "kv_cache_dtype": float("inf")},
        log=log(HOSTILE, f"[2026-11-30 02:34:34] Load weight begin. {HOSTILE}"),
        exchanges=(spoken([1, 2, 3], name=HOSTILE),),
        reports=(Report(HOSTILE, 0, HOSTILE, ModelReport(HOSTILE, False, head=Head(HOSTILE))),),
    )  # fmt: skip
    manifest: dict[str, object] = {
        "collected_at": HOSTILE, "engine": {"name": HOSTILE}, "notes": [HOSTILE], "level": HOSTILE,
        "replicas": [{"index": HOSTILE, "errors": [HOSTILE]}, HOSTILE],
    }  # fmt: skip
    text = rendered(of(replica, manifest=manifest), validators, ["lm-head-shared"])
    seen = Observation("log", HOSTILE, HOSTILE, Rung.BUILT, HOSTILE, HOSTILE, window=HOSTILE)
    text += judged(
        verdict(mechanism=HOSTILE, summary=HOSTILE, remedy=HOSTILE, conflicts=(HOSTILE,),
                evidence=(seen,)),
    )  # fmt: skip
    for half in text.split("</html>")[:2]:
        shown = Page(half + "</html>")
        assert not [e for e in shown.elements if e.tag in ("script", "img")]
        assert not [e for e in shown.elements if any(a.startswith("on") for a in e.attributes)]
    assert "&lt;script&gt;alert(1)" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    text.encode("utf-8")


def test_long_values_are_cut_and_say_so() -> None:
    text = judged(verdict(summary="x" * 100_000, evidence=()))
    assert len(text) < 60_000
    assert "characters more)" in text


def test_secrets_never_reach_the_page(validators: Validators) -> None:
    key = "hf_abcdefghijklmnopqrstuvwx"
    replica = Replica(
        0, ServerState("failed", "x", f"HF_TOKEN={key}"),
        command=f"--api-key {key} --port 1",
        requested={"api_key": "plain-words", "port": "1"},
        environment={"HF_TOKEN": "other-words", "OPENAI_API_KEY": key},
        server_info={"api_key": "plain-words", "admin_api_key": "third-words", "note": key},
        log=log(f"Authorization: Bearer {key}"),
    )  # fmt: skip
    seen = Observation(
        "server_info", "api_key", "plain-words", Rung.BUILT, "server_info.json#/note"
    )
    line = Observation("log", "line", "x", Rung.BUILT, "server.log:1")
    found = verdict(evidence=(seen, line), summary=f"--api-key {key}", conflicts=(f"token: {key}",))
    text = judged(found, replica=replica) + rendered(of(replica), validators, ["lm-head-shared"])
    for secret in (key, "plain-words", "other-words", "third-words"):
        assert secret not in text
    assert "&lt;redacted&gt;" in text


def model(runner: str) -> ModelReport:
    layers = tuple(
        MoeLayer(f"layers.{i}", "Mxfp4", runner if i in (3, 7) else "humming") for i in range(12)
    )
    return ModelReport("Target", False, moe_layers=layers)


def test_64_equal_ranks_are_one_line_and_the_odd_one_is_named(validators: Validators) -> None:
    reports = tuple(
        Report(f"report-tp{rank}.json", rank, "ready", model("triton" if rank == 5 else "humming"))
        for rank in range(64)
    )
    info = {"version": "0.5.23", "moe_runner_backend": "humming", "tp_size": 64}
    replica = Replica(0, READY, server_info=info, reports=reports, requested={"tp": "64"})
    observations = tuple(
        Observation("report", "runner", "humming", Rung.BUILT, report.file, rank=report.rank)
        for report in reports
        if report.rank != 5
    )
    text = judged(verdict(Answer.PROVEN, evidence=observations), replica=replica)
    shown = Page(text)
    (fact,) = shown.all("li", inside="facts")
    assert "ranks 0-4, 6-63" in fact.text
    assert "report-tp0.json" in fact.text
    assert "and 60 more" in fact.text
    assert "report-tp40.json" not in fact.text
    rows = shown.table("values")
    assert rows["moe_runner_backend"] == [
        "", "humming",
        "humming (ranks 0-4, 6-63); humming (10 of 12 layers: layers.0, layers.1, layers.2, "
        "layers.4 and more), triton (2 of 12 layers: layers.3, layers.7) (rank 5)",
        "≠ differs",
    ]  # fmt: skip
    assert rows["tp_size"] == ["64", "64", "", "= same"]
    assert len(text) < 100_000


def test_a_runner_other_than_the_resolved_one_differs() -> None:
    report = Report("r.json", 0, "ready", model("triton"))
    info = {"version": "0.5.23", "moe_runner_backend": "flashinfer_cutlass"}
    shown = Page(
        judged(verdict(Answer.PROVEN), replica=Replica(0, READY, server_info=info,
                                                       reports=(report,)))
    )  # fmt: skip
    assert shown.table("values")["moe_runner_backend"][3] == "≠ differs"


@pytest.mark.parametrize(
    ("requested", "resolved", "built", "mark"),
    [
        ("humming", "humming", "humming", "≠ differs"),
        ("auto", "auto", "triton", "= same"),
        ("triton", "triton", "triton", "= same"),
        ("triton", "deep_gemm", "", "≈ reads differently"),
        ("triton", None, "", "? not shown"),
        ("", "auto", "", "· one source"),
    ],
)
def test_a_row_is_marked_by_what_is_known(
    requested: str, resolved: str | None, built: str, mark: str
) -> None:
    # `model` builds layers 3 and 7 with the runner named, the others with humming.
    layers = (MoeLayer("layers.0", "Mxfp4", built),)
    target = model("triton") if built == "humming" else ModelReport("T", False, moe_layers=layers)
    replica = Replica(
        0, READY,
        server_info={"version": "0.5.23"} | ({"moe_runner_backend": resolved} if resolved else {}),
        requested={"moe_runner_backend": requested} if requested else {},
        reports=(Report("r.json", 0, "ready", target),) if built else (),
    )  # fmt: skip
    shown = Page(judged(verdict(Answer.PROVEN), replica=replica))
    assert shown.table("values")["moe_runner_backend"][3] == mark


def test_replicas_that_are_alike_share_a_table(validators: Validators) -> None:
    info = {"version": "0.5.23", "moe_runner_backend": "auto"}
    alike = [Replica(i, READY, server_info=info, requested={"tp": "2"}) for i in range(3)]
    odd = Replica(3, READY, server_info=info, requested={"tp": "4"})
    shown = Page(rendered(of(*alike, odd), validators, ["lm-head-shared"]))
    assert [e.text for e in shown.all("h3", inside="card") if e.text.startswith("Replica")] == [
        "Replica 0-2", "Replica 3",
    ]  # fmt: skip
    assert "Server 0-3: ✓ ready" in shown.one("ul", "states").text


def test_silent_ranks_are_named_as_not_looked_at(validators: Validators) -> None:
    report = Report("r.json", 1, "ready", model("humming"))
    replica = Replica(0, READY, server_info={"tp_size": 4}, reports=(report,))
    shown = Page(rendered(of(replica), validators, ["lm-head-shared"]))
    assert "No in-engine report of rank 0, 2-3." in [
        e.text for e in shown.all("li", inside="footer")
    ]


def test_variables_are_held_against_the_registry(validators: Validators) -> None:
    environment = {
        "SGLANG_ENABLE_FP8_LM_HEAD": "1", "SGLANG_SIMULATE_ACC_LEN": "3", "OMP_NUM_THREADS": "1",
        "SGLANG_ENABLE_TORCH_COMPILE": "0",
    }  # fmt: skip
    info = {"version": "0.5.23"}
    replica = Replica(0, READY, server_info=info, environment=environment)
    rows = Page(rendered(of(replica), validators, ["lm-head-shared"])).table("environment")
    assert rows["SGLANG_ENABLE_FP8_LM_HEAD"] == ["1", "✗ refutes no-undeclared-environment"]
    assert rows["SGLANG_SIMULATE_ACC_LEN"] == ["3", "✗ refutes no-simulated-acceptance"]
    assert rows["SGLANG_ENABLE_TORCH_COMPILE"] == ["0", "✓ declared"]
    assert rows["OMP_NUM_THREADS"] == ["1", "not one of the engine"]


def test_what_the_probe_in_the_engine_could_not_see_is_said(validators: Validators) -> None:
    seen = ModelReport(
        "Target", False, kv_cache_dtype="auto", kv_pool_dtype="float8_e4m3fn",
        weight_bytes={"head": 2_000_000_000, "experts": 0, "counted_before": 7},
        megakernel=Megakernel("Mega", (1, 2), graphs=(1, 2, 4), covered=(1,)),
    )  # fmt: skip
    reports = tuple(
        Report(
            f"r{rank}.json",
            rank,
            "ready",
            seen,
            hooks_missing={"sampler": "no such class"},
            env_renamed={"SGLANG_OLD": "SGLANG_NEW"},
            env_declared={"SGLANG_OLD": "1"},
            versions={"torch": "2.9"},
        )
        for rank in range(2)
    )
    hooks = (Hooks("hooks-1.json", 1, missing={"graphs": "too old"}),)
    info = {"version": "0.5.23", "kv_cache_dtype": "auto"}
    replica = Replica(0, READY, server_info=info, reports=reports, hooks=hooks)
    shown = Page(rendered(of(replica), validators, ["lm-head-shared"]))
    unlooked = [e.text for e in shown.all("li", inside="footer")]
    assert "Not in the in-engine report: sampler (no such class), ranks 0-1." in unlooked
    assert "Hook of the in-engine probe not applied: graphs (too old)." in unlooked
    rows = shown.table("values")
    assert rows["kv_cache_dtype"] == ["", "auto", "float8_e4m3fn", "= same"]
    assert rows["megakernel"][2] == "Mega, widths 1-2, 1 of 3 decode graphs covered"
    assert rows["weights"][2] == "2.00 GB: head 2.00 GB"
    assert rows["software"][2] == "torch 2.9"
    assert shown.table("environment")["SGLANG_OLD"] == ["1", "≈ renamed to SGLANG_NEW"]


def test_a_megakernel_that_the_engine_did_not_check_as_a_whole(validators: Validators) -> None:
    kernel = Megakernel("Mega", (1,), graphs=(1,), covered=(1,), capture_checked=False)
    target = ModelReport("Target", False, megakernel=kernel)
    report = Report("r0.json", 0, "ready", target)
    shown = Page(rendered(of(Replica(0, READY, reports=(report,))), validators, []))
    said = "Mega, widths 1, 1 of 1 decode graphs covered, capture not checked as a whole"
    assert shown.table("values")["megakernel"][2] == said


def test_phases_of_the_log_have_their_times(validators: Validators) -> None:
    replica = Replica(
        0, READY,
        log=log(
            "[2026-11-30 02:34:30] Init torch distributed begin.",
            "[2026-11-30 02:34:34] Load weight begin.",
            "[2026-11-30 02:36:34] Load weight end.",
            "[2026-11-30 02:36:35] The server is fired up and ready to roll!",
        ),
    )  # fmt: skip
    shown = Page(rendered(of(replica), validators, ["server-ready"]))
    rows = shown.table("start")
    assert rows["loading weights"][:2] == ["02:34:34", "120 s"]
    assert rows["loading weights"][3] == "server.log:2"
    assert rows["serving"][1] == "the last"
    assert "125 s from the first line" in shown.one("caption", inside="start").text


def test_without_counted_drafts_the_log_is_drawn_as_a_hint(validators: Validators) -> None:
    lines = [f"Decode batch, #token: 9, accept len: {value}, cuda graph" for value in (1.9, 2.1)]
    shown = Page(rendered(of(Replica(0, READY, log=log(*lines))), validators, ["draft-used"]))
    assert shown.table("acceptance") == {
        "1.75 to 2": ["1", "50.0%"], "2 to 2.25": ["1", "50.0%"],
    }  # fmt: skip
    assert "a hint, no proof" in shown.one("figcaption").text


@pytest.mark.parametrize(
    "histogram",
    [[], [0, 0], [1, -1], [1, "2"], [True], {"a": 1}, None, [1] * 65, [float("nan")], [10**40]],
)
def test_a_broken_histogram_is_not_drawn(histogram: object, validators: Validators) -> None:
    meta = {"meta_info": {"spec_correct_drafts_histogram": histogram, "spec_verify_ct": 0}}
    exchange = Exchange("requests/1.json", "/generate", 200, None, meta)
    replica = Replica(0, READY, exchanges=(exchange,))
    text = page(
        Judgement({0: READY}, ()), of(replica), Asked((), validators.probes)
    )  # fmt: skip
    assert not Page(text).all("svg")


def test_a_mark_far_away_is_given_in_words(validators: Validators) -> None:
    expectation = Expectation("speculation", "speculative-acceptance", floor=500.0,
                              verify_cost_ratio=1.5)  # fmt: skip
    replica = Replica(0, READY, exchanges=(spoken([10, 10, 10, 70]),))
    evidence = of(replica)
    judgement = judge([expectation], evidence, validators)
    shown = Page(page(judgement, evidence, Asked((expectation,), validators.probes)))
    assert "The floor 500 lies outside the picture." in shown.one("figcaption").text
    assert "break-even 1.5" in [e.text for e in shown.all("text")]
    for text in shown.all("text"):
        assert -1 <= float(text.attributes["x"]) <= 400


@pytest.mark.parametrize("case", sorted(p for p in RECORDINGS.glob("*/*") if p.is_dir()), ids=str)
def test_every_recording_has_a_small_page_that_is_complete(
    case: Path, validators: Validators
) -> None:
    asked = [*ASKED, "moe-runner=triton"]
    evidence = read_evidence(case)
    text = rendered(evidence, validators, asked)
    wanted = [expectation_from(name, validators.probes) for name in asked]
    answers = len(judge(wanted, evidence, validators).verdicts)
    assert answers >= 10
    assert len(text.encode()) < 300_000
    shown = Page(text)
    assert len(shown.all("li", inside="answers")) == answers
    for link in shown.all("a"):
        target = link.attributes["href"].removeprefix("#")
        assert [e for e in shown.elements if e.attributes.get("id") == target], target
    ids = [e.attributes["id"] for e in shown.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))


def test_nothing_is_fetched_and_no_script_runs(validators: Validators) -> None:
    text = rendered(read_evidence(recording("sabotaged")), validators, ASKED)
    shown = Page(text)
    assert not shown.all("script")
    for element in shown.elements:
        for name in ("src", "href", "data", "action", "poster"):
            value = element.attributes.get(name, "#")
            assert value.startswith(("#", "data:,")), value
    assert not re.search(r"url\(|@import|https?:", text)
    policy = next(e for e in shown.all("meta") if "http-equiv" in e.attributes)
    assert policy.attributes["content"].startswith("default-src 'none'")


def test_tables_and_headings_are_accessible(validators: Validators) -> None:
    shown = of_recording("sabotaged", validators)
    assert all(e.attributes.get("scope") in ("col", "row") for e in shown.all("th"))
    levels = [int(e.tag[1]) for e in shown.elements if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    (svg,) = shown.all("svg")
    assert svg.attributes["role"] == "img"
    assert shown.one("title", svg.attributes["aria-labelledby"]).text.startswith("Mean acceptance")


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_text_colour_has_contrast_in_both_schemes(validators: Validators) -> None:
    text = rendered(of(Replica(0, READY)), validators)
    schemes = re.findall(r":root \{([^}]*--ink[^}]*)\}", text)
    assert len(schemes) == 3, "light, dark and print"
    for scheme in schemes[:2]:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", scheme))
        for front in ("ink", "soft", "good", "bad", "open", "none", "link"):
            for back in ("page", "card", "code", "good-wash", "bad-wash", "open-wash"):
                one, other = _luminance(colours[front]), _luminance(colours[back])
                ratio = (max(one, other) + 0.05) / (min(one, other) + 0.05)
                assert ratio >= 4.5, (front, back, ratio)


def test_the_same_evidence_gives_the_same_bytes(validators: Validators) -> None:
    first = rendered(read_evidence(recording("sabotaged")), validators, ASKED)
    assert first == rendered(read_evidence(recording("sabotaged")), validators, ASKED)
    assert "again --now" in first


def test_a_profile_names_the_deployment_and_that_it_is_unverified(tmp_path: Path) -> None:
    out = tmp_path / "check.html"
    profile = ROOT / "profiles" / "deployments" / "muse-spark-open-gb300x8.yaml"
    code = run(["check", str(profile), "--replay", str(recording("healthy")), "--format", "html",
                "-o", str(out)])  # fmt: skip
    assert code == 1
    shown = Page(out.read_text(encoding="utf-8"))
    assert shown.one("h1").text == "muse-spark-open-gb300x8"
    rows = shown.table("values")
    assert rows["context_length"] == [
        "command: 1024; profile: 1048576", "1024", "", "✗ refuted",
    ]  # fmt: skip
    marks = [e.text for e in shown.all("span", "unverified")]
    assert marks == ["unverified: nobody has yet run this composition as a whole"]


def test_the_command_that_is_shown_gives_the_same_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    replay = str(recording("healthy"))
    words = ["check", "--expect", "draft-tokens=4", "--replay", replay, "--format", "html"]
    assert run([*words, "-o", "check.html"]) == 0
    first = (tmp_path / "check.html").read_bytes()
    shown = Page(first.decode())
    again = next(e.text for e in shown.all("pre", inside="footer") if "configurator" in e.text)
    assert run(again.split()[1:]) == 0
    assert (tmp_path / "check.html").read_bytes() == first


def test_without_a_file_the_page_goes_to_the_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["check", "--expect", "draft-tokens=4", "--replay", str(recording("healthy"))]
    assert run([*words, "--format", "html"]) == 0
    assert Page(capsys.readouterr().out).one("p", "outcome").text == "✓ Good"


def test_a_directory_is_no_file_for_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["check", "--expect", "draft-tokens=4", "--replay", str(recording("healthy"))]
    assert run([*words, "--format", "html", "-o", str(tmp_path)]) == 2
    assert "is a directory" in capsys.readouterr().err
    assert run([*words, "--format", "html", "-o", str(tmp_path / "no" / "x.html")]) == 2
    assert run([*words, "-o", str(tmp_path / "kept")]) == 2, "a replay collects nothing"


def test_the_warm_up_is_not_in_the_picture(validators: Validators) -> None:
    exchanges = (spoken([0, 0, 0, 90], kind="warm-up"), spoken([30, 10], name="002.json"))
    shown = Page(rendered(of(Replica(0, READY, exchanges=exchanges)), validators))
    assert "Mean acceptance length 1.25 over 40 verify steps of 1 request;" in (
        shown.one("figcaption").text
    )


def test_a_value_below_the_rung_of_the_verdict_is_not_called_refuted() -> None:
    info = {"version": "0.5.23", "moe_runner_backend": "auto"}
    kernel = Observation("trace", "MoE kernel", "triton", Rung.EXECUTED, "TP-0.trace.json")
    echo = Observation("server_info", "moe_runner_backend", "auto", Rung.RESOLVED)
    replica = Replica(0, READY, server_info=info)
    for rung, mark in ((Rung.EXECUTED, "· one source"), (Rung.RESOLVED, "✗ refuted")):
        shown = Page(judged(verdict(rung=rung, evidence=(kernel, echo)), replica=replica))
        assert shown.table("values")["moe_runner_backend"][3] == mark


def test_of_two_starts_in_one_log_the_last_is_told(validators: Validators) -> None:
    lines = [
        "[2026-11-30 02:00:00] server_args=ServerArgs(x=1)",
        "[2026-11-30 02:00:09] Load weight begin.",
        "[2026-11-30 03:00:00] server_args=ServerArgs(x=1)",
        "[2026-11-30 03:00:05] Load weight begin.",
    ]
    shown = Page(rendered(of(Replica(0, READY, log=log(*lines))), validators))
    rows = shown.table("start")
    assert rows["starting"][:2] == ["03:00:00", "5 s"]
    assert rows["loading weights"][0] == "03:00:05"


def test_of_an_endless_text_only_the_beginning_is_looked_at() -> None:
    began = time.process_time()
    for _ in range(50):
        kept = clean("api_key=verysecretvalue1 " + "A" * 3_000_000)
    assert time.process_time() - began < 1
    assert kept.startswith("api_key=<redacted> AAA")
    assert kept.endswith("… (2999419 characters more)")


def test_half_a_key_at_the_cut_is_not_shown() -> None:
    assert "hf_" not in clean("x" * 590 + " hf_ABCDEFGHIJKLMNOPQRSTUVWX" + "y" * 20_000)


def test_an_endless_line_of_the_log_costs_no_time() -> None:
    hostile = LogLine(1, "Decode batch #running-req: " * 100_000)
    began = time.process_time()
    assert charts([Replica(0, READY, log=(hostile,))], []) == []
    assert time.process_time() - began < 1
