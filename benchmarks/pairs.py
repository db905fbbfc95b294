"""Tokens per second of two running servers, in turn: what the one difference between them costs.

    python benchmarks/pairs.py URL_A URL_B [--rounds N] [--tokens N] [--batch N ...]

Both serve the same model on the same device, and only one of them is asked at a time. Prints the
median of the ratios A / B of each round with its quartiles, for each batch size. Standard library
only, so that it runs beside an engine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import urllib.request


def ask(url: str, path: str, body: dict[str, object] | None = None) -> bytes:
    """One call of the server."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(
        f"{url}{path}", data=data, headers={"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        content: bytes = answer.read()
        return content


def rate(url: str, batch: int = 1, tokens: int = 256) -> float:
    """Tokens per second of one greedy request with `batch` prompts."""
    prompts = [[10 + index, 20, 33, 77] for index in range(batch)]
    body: dict[str, object] = {
        "input_ids": prompts,
        "sampling_params": {"max_new_tokens": tokens, "temperature": 0, "ignore_eos": True},
    }
    began = time.perf_counter()
    ask(url, "/generate", body)
    return batch * tokens / (time.perf_counter() - began)


def compared(first: str, second: str, batch: int, tokens: int, rounds: int) -> list[list[float]]:
    """The rates of both, a pair a round; which one begins takes turns."""
    for url in (first, second):
        rate(url, batch, tokens)
    pairs = []
    for number in range(rounds):
        pair = dict.fromkeys((first, second), 0.0)
        for url in (first, second) if number % 2 else (second, first):
            pair[url] = rate(url, batch, tokens)
        pairs.append([pair[first], pair[second]])
    return pairs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    given = parser.parse_args()
    for batch in given.batch:
        pairs = compared(given.first, given.second, batch, given.tokens, given.rounds)
        ratios = [first / second for first, second in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4)
        a, b = (statistics.median(side) for side in zip(*pairs, strict=True))
        print(
            f"batch {batch:3}: {a:8.1f} and {b:8.1f} tokens/s; A / B median {middle:.4f} "
            f"(quartiles {low:.4f} to {high:.4f}, {given.rounds} rounds)",
            flush=True,
        )


if __name__ == "__main__":
    main()
