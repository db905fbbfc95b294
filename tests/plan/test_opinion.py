"""Another program's opinion: found, asked offline, in limited time, and read with care."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from configurator.content import Library
from configurator.deployment import Deployment
from configurator.plan import opinion
from configurator.plan.opinion import opinion_of
from configurator.resolve import resolve

ANSWER: dict[str, Any] = {
    "summary": {
        "mean_tpot_ms": 6.06,
        "prediction_provenance": {"aggregated": {"data_version": "0.5.14"}},
    },
    "details": {
        "sections": {
            "memory": {
                "roles": {
                    "aggregated": {
                        "kv_size_per_token_bytes": 147456,
                        "memory_breakdown": {"weights_bytes": 16380854272},
                    }
                }
            }
        }
    },
}
"""As aisimulate 0.13 answers for Qwen3-8B on one H200, shortened."""


@pytest.fixture
def known(library: Library, tmp_path: Path) -> Deployment:
    """A deployment on a machine that the program has data of."""
    path = tmp_path / "known.yaml"
    path.write_text(
        "apiVersion: configurator/v1\nkind: Deployment\nname: known\n"
        "engine: {version: 0.5.23}\nhardware: {name: h200, gpus: 1}\n"
        "model: {name: qwen3-8b}\ntopology: {tensor: 1}\n"
    )
    return resolve(*library.profile(str(path)), library)


def program(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program of that name on the PATH."""
    path = folder / "bin" / opinion.PROGRAM
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent))


def test_it_is_asked_for_plain_decode_and_offline(
    known: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "asked.json"
    body = (
        "question = json.load(open(sys.argv[sys.argv.index('--config') + 1]))\n"
        "said = [sys.argv[1:], question, os.environ['https_proxy']]\n"
        f"json.dump(said, open({str(kept)!r}, 'w'))\n"
        f"print({json.dumps(ANSWER)!r})"
    )
    program(tmp_path, body, monkeypatch)
    found = opinion_of(known, 4, 8192)
    assert found.per_token is not None
    assert found.per_token.value == pytest.approx(0.00606)
    assert found.per_token.source == "aisimulate, data of 0.5.14"
    assert found.kv_per_token is not None
    assert found.kv_per_token.value == 147456
    assert found.weights is not None
    assert found.weights.value == 16380854272
    words, question, proxy = json.loads(kept.read_text())
    assert words[0] == "predict"
    assert proxy == "http://127.0.0.1:9"
    assert question["engine"]["hardware"] == "h200_sxm"
    assert question["engine"]["model"] == "Qwen/Qwen3-8B"
    assert question["traffic"]["source"]["input_tokens"] == 8192
    assert question["traffic"]["load"]["concurrency"] == 4


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("print('no json')", "its answer is no JSON"),
        ("print('[1, 2]')", "its answer has no mean_tpot_ms"),
        ('print(\'{"summary": {"mean_tpot_ms": "fast"}}\')', "its answer has no mean_tpot_ms"),
        ('print(\'{"summary": {"mean_tpot_ms": -1}}\')', "its answer has no mean_tpot_ms"),
        (
            "sys.stderr.write('x\\nit failed: ValueError: no data of it\\nprocess exited\\n')\n"
            "sys.exit(1)",
            "it has none: ValueError: no data of it",
        ),
        ("sys.exit(1)", "it has none: it gives no reason"),
        ("sys.stderr.write('failed: ' + 'y' * 9000)\nsys.exit(1)", "it has none: yyy"),
    ],
)
def test_what_it_does_not_say_is_a_note(
    body: str, note: str, known: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, body, monkeypatch)
    found = opinion_of(known, 1, 1024)
    assert found.per_token is None
    assert found.note.startswith(note)
    assert len(found.note) < 400


def test_it_is_given_up_after_a_time(
    known: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "time.sleep(60)", monkeypatch)
    monkeypatch.setattr(opinion, "TIMEOUT_S", 0.2)
    assert opinion_of(known, 1, 1024).note == "no answer within 0.2 s"


def test_without_the_program_the_remedy_is_said(
    known: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    note = opinion_of(known, 1, 1024).note
    assert note == ("aisimulate is not installed: pip install 'serving-configurator[predict]'")


def test_a_machine_that_it_does_not_know_is_not_asked_about(library: Library) -> None:
    spark = resolve(*library.profile("ling-3.0-flash-spark"), library)
    assert opinion_of(spark, 1, 1024).note == "it has no data of dgx-spark"
