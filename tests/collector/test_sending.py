"""How many requests a server gets, which, and how many at a time."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from collector.stub import Answer, Stub, read

from configurator.collector.collecting import collect
from configurator.collector.plan import Plan


def test_level_1_sends_three_short_different_requests(stub: Stub, tmp_path: Path) -> None:
    collect({0: stub.url}, tmp_path / "out", concurrency=8)
    assert len(stub.generated) == 3
    assert len({body["text"] for body in stub.generated}) == 3
    assert {body["sampling_params"]["max_new_tokens"] for body in stub.generated} == {64}
    assert {body["sampling_params"]["temperature"] for body in stub.generated} == {0}


def test_level_2_stops_at_enough_verify_steps(stub: Stub, tmp_path: Path) -> None:
    stub.steps = 100
    collect({0: stub.url}, tmp_path / "out", level=2)
    assert len(stub.generated) == 4


def test_level_2_sends_at_most_24_different_requests(stub: Stub, tmp_path: Path) -> None:
    manifest = collect({0: stub.url}, tmp_path / "out", level=2)
    assert len({body["text"] for body in stub.generated}) == len(stub.generated) == 24
    assert {request["together"] for request in manifest["requests"]} == {1}
    assert manifest["notes"] == [
        "replica 0: 384 verify steps after 24 requests, 400 were wanted"
    ]  # fmt: skip


def test_level_2_sends_alone_and_at_the_concurrency(stub: Stub, tmp_path: Path) -> None:
    manifest = collect(
        {0: stub.url}, tmp_path / "out", level=2, concurrency=5, prompts=["one", "two"]
    )
    sent = [(request["kind"], request["together"]) for request in manifest["requests"]]
    assert sent[:4] == [("known-answer", 1), ("easy", 1), ("easy", 1), ("profile", 1)]
    assert sent[4:] == [("profile", 5), ("profile", 5), *[("easy", 5)] * 13]
    kept = read(tmp_path / "out/replica-0/requests/005.json")
    assert (kept["kind"], kept["together"], kept["request"]["text"]) == ("profile", 5, "one")
    texts = [body["text"] for body in stub.generated]
    assert texts.count("one") == 2
    assert len(set(texts)) == len(texts) - 1


def test_a_concurrency_above_the_number_of_texts_is_reached(stub: Stub, tmp_path: Path) -> None:
    manifest = collect({0: stub.url}, tmp_path / "out", level=2, concurrency=48)
    together = [r for r in manifest["requests"] if r["together"] == 48]
    assert len(together) == 48
    assert len({body["text"] for body in stub.generated}) == len(stub.generated)
    for width, sent in ((256, 256), (300, 256)):
        waves = Plan(level=2, concurrency=width).together(tokenizer=True, again=True)
        assert [len(wave) for wave in waves] == [sent]


def test_an_ngram_draft_meets_no_text_twice(stub: Stub, tmp_path: Path) -> None:
    stub.info["speculative_algorithm"] = "NGRAM"
    prompts = [f"text {i}" for i in range(4)]
    collect({0: stub.url}, tmp_path / "out", level=2, concurrency=5, prompts=prompts)
    texts = [body["text"] for body in stub.generated]
    assert set(prompts) < set(texts)
    assert len(set(texts)) == len(texts)


def test_without_speculation_the_concurrency_is_tried_once(stub: Stub, tmp_path: Path) -> None:
    stub.steps = 0
    manifest = collect({0: stub.url}, tmp_path / "out", level=2, concurrency=4)
    assert [r["together"] for r in manifest["requests"]] == [1, 1, 1, 4, 4, 4, 4]


def test_greedy_requests_are_sent_to_be_compared(stub: Stub, tmp_path: Path) -> None:
    body = {"text": "old", "sampling_params": {"temperature": 0, "max_new_tokens": 32}}
    manifest = collect(
        {0: stub.url}, tmp_path / "out", level=2, prompts=["one"], references=[body] * 2,
        sampling={"temperature": 1.0, "top_p": 0.9},
    )  # fmt: skip
    kinds = [r["kind"] for r in manifest["requests"]]
    assert kinds == ["known-answer", "easy", "easy", "profile", *["reference"] * 3]
    assert stub.generated[4:6] == [body, body]
    assert stub.generated[6] == {
        "text": "one",
        "sampling_params": {"temperature": 0, "max_new_tokens": 128},
    }
    assert stub.generated[0]["sampling_params"] == {"temperature": 0, "max_new_tokens": 128}


def test_level_2_keeps_the_concurrency_of_the_profile(stub: Stub, tmp_path: Path) -> None:
    running, most, lock = 0, 0, threading.Lock()
    plain = stub.generate

    def slow(body: dict[str, Any]) -> Answer:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.05)
        with lock:
            running -= 1
        return plain(body)

    stub.generate = slow  # type: ignore[method-assign]
    collect({0: stub.url}, tmp_path / "out", level=2, concurrency=4)
    assert most == 4


def test_without_speculation_level_2_ends_early(stub: Stub, tmp_path: Path) -> None:
    stub.steps = 0
    collect({0: stub.url}, tmp_path / "out", level=2)
    assert len(stub.generated) == 3


def test_passive_asks_for_no_token(stub: Stub, tmp_path: Path) -> None:
    manifest = collect({0: stub.url}, tmp_path / "out", level=2, passive=True)
    assert stub.generated == []
    assert "/health" not in stub.seen  # it generates a token inside the engine
    assert manifest["replicas"][0]["ready"] is True
    assert manifest["requests"] == []


def test_prompts_and_sampling_of_the_profile(stub: Stub, tmp_path: Path) -> None:
    manifest = collect(
        {0: stub.url}, tmp_path / "out", prompts=["one", "two", "one"],
        sampling={"temperature": 0.6, "max_new_tokens": 100000},
    )  # fmt: skip
    assert [body["text"] for body in stub.generated[1:]] == ["one", "two"]
    assert stub.generated[1]["sampling_params"] == {"temperature": 0.6, "max_new_tokens": 64}
    assert stub.generated[0]["sampling_params"] == {"temperature": 0, "max_new_tokens": 64}
    kinds = [request["kind"] for request in manifest["requests"]]
    assert kinds == ["known-answer", "profile", "profile"]


def test_a_server_without_tokenizer_gets_token_ids(stub: Stub, tmp_path: Path) -> None:
    stub.info["skip_tokenizer_init"] = True
    manifest = collect({0: stub.url}, tmp_path / "out", prompts=["one"])
    ids = [tuple(body["input_ids"]) for body in stub.generated]
    assert len(set(ids)) == 3
    assert all(0 < token < 500 for row in ids for token in row)
    assert {request["kind"] for request in manifest["requests"]} == {"unknown"}


def test_a_server_that_dies_under_the_first_request(stub: Stub, tmp_path: Path) -> None:
    def die(body: dict[str, Any]) -> Answer:
        stub.answer("/health", 503, b"")
        stub.generated.append(body)
        return 500, b'{"error": "scheduler died"}'

    stub.generate = die  # type: ignore[method-assign]
    manifest = collect({0: stub.url}, tmp_path / "out", level=2)
    replica = manifest["replicas"][0]
    assert len(stub.generated) == 1
    assert replica["ready"] is False
    assert replica["errors"] == [
        '/generate: HTTP 500 {"error": "scheduler died"}', "/health: HTTP 503",
    ]  # fmt: skip
    assert "server_info_startup.json" in replica["files"]
    assert read(tmp_path / "out/replica-0/requests/001.json")["status"] == 500


def test_one_request_that_is_refused_does_not_end_the_others(stub: Stub, tmp_path: Path) -> None:
    answer = stub.generate

    def refuse_first(body: dict[str, Any]) -> Answer:
        status, text = answer(body)
        return (500, b"boom") if len(stub.generated) == 1 else (status, text)

    stub.generate = refuse_first  # type: ignore[method-assign]
    manifest = collect({0: stub.url}, tmp_path / "out")
    assert [request["status"] for request in manifest["requests"]] == [500, 200, 200]
    assert manifest["replicas"][0]["ready"] is True
