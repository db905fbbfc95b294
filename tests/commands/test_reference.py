"""`check --reference`: greedy requests of one run, sent again to another."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from configurator.cli import run

Tokens = Callable[[str], list[int]]


def plain(text: str) -> list[int]:
    return [(len(text) * 7 + i * i) % 1000 for i in range(64)]


def broken(text: str) -> list[int]:
    tokens = plain(text)
    tokens[17] += 1
    return tokens


class Engine(ThreadingHTTPServer):
    """A server whose tokens follow from the text alone."""

    def __init__(self, tokens: Tokens, model: str = "/models/m") -> None:
        self.tokens, self.model = tokens, model
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        self.reply({"version": "0.5.23", "model_path": self.server.model})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tokens = self.server.tokens(body["text"])
        meta = {"completion_tokens": len(tokens)}
        self.reply({"text": " words", "output_ids": tokens, "meta_info": meta})

    def reply(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def engines() -> Iterator[Callable[..., Engine]]:
    started: list[Engine] = []

    def start(*args: Any) -> Engine:
        started.append(Engine(*args))
        return started[-1]

    yield start
    for engine in started:
        engine.shutdown()
        engine.server_close()


def answer(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = run(["check", "--expect", "greedy-equality", *words, "--format", "json"])
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    return code, next(v for v in verdicts if v["mechanism"] == "greedy-equality")


@pytest.mark.parametrize(
    ("tokens", "model", "code", "verdict", "says"),
    [
        (plain, "/models/m", 0, "PROVEN", "all 192 tokens of 3 greedy requests"),
        (broken, "/models/m", 1, "REFUTED", "token 17 is"),
        (broken, "/models/other", 0, "INCONCLUSIVE", "the reference ran m, this server other"),
    ],
)
def test_a_run_is_held_against_another(
    engines: Callable[..., Engine], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    tokens: Tokens, model: str, code: int, verdict: str, says: str,
) -> None:  # fmt: skip
    base, kept = tmp_path / "base", tmp_path / "kept"
    _, alone = answer(["--url", engines(plain).url, "--out", str(base)], capsys)
    assert (alone["verdict"], alone["summary"]) == ("INCONCLUSIVE", "no reference run was given")
    again = ["--url", engines(tokens, model).url, "--out", str(kept), "--reference", str(base)]
    found = answer(again, capsys)
    assert (found[0], found[1]["verdict"]) == (code, verdict)
    assert says in found[1]["summary"]
    # Both runs sent the same greedy requests by themselves: nothing is sent twice.
    assert len(list((kept / "replica-0/requests").iterdir())) == 3
    # What was kept says the same without any server.
    replayed = answer(["--replay", str(kept), "--reference", str(base)], capsys)
    assert (replayed[0], replayed[1]["verdict"]) == (code, verdict)


def test_requests_that_this_run_does_not_send_are_sent_for_the_comparison(
    engines: Callable[..., Engine], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, kept = tmp_path / "base", tmp_path / "kept"
    answer(["--url", engines(plain).url, "--out", str(base), "--level", "2"], capsys)
    again = ["--url", engines(plain).url, "--out", str(kept), "--reference", str(base)]
    code, verdict = answer(again, capsys)
    assert (code, verdict["verdict"]) == (0, "PROVEN")
    kinds = [
        json.loads(path.read_text())["kind"]
        for path in sorted((kept / "replica-0/requests").iterdir())
    ]
    assert kinds == ["known-answer", "easy", "easy", "reference", "reference", "reference"]


def test_a_reference_that_is_none_is_unusable_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["check", "--expect", "greedy-equality", "--replay", str(tmp_path)]
    assert run([*words, "--reference", str(tmp_path / "none")]) == 2
    assert "EVD001" in capsys.readouterr().err


def test_a_run_is_not_held_against_itself(
    engines: Callable[..., Engine], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, link, copy = tmp_path / "base", tmp_path / "link", tmp_path / "copy"
    engine = engines(plain)
    answer(["--url", engine.url, "--out", str(base)], capsys)
    link.symlink_to(base)
    for same in (base, link, tmp_path / "base" / ".." / "base"):
        words = ["check", "--expect", "greedy-equality", "--replay", str(base)]
        assert run([*words, "--reference", str(same)]) == 2
        assert "is the evidence that is judged" in capsys.readouterr().err
    again = ["check", "--expect", "greedy-equality", "--url", engine.url, "--out", str(base)]
    assert run([*again, "--reference", str(base)]) == 2
    capsys.readouterr()
    # A copy is another folder, and the same run.
    shutil.copytree(base, copy)
    code, verdict = answer(["--replay", str(copy), "--reference", str(base)], capsys)
    assert (code, verdict["verdict"]) == (0, "INCONCLUSIVE")
    assert "the same evidence" in verdict["summary"]
