"""Decode steps of a running server, by the clock: docs/measurements/h200-decode.md.

    python benchmarks/decode_steps.py URL [--batch 1 4 16] [--prompt 1024] [--tokens 520]

The server takes token ids (`--skip-tokenizer-init`) and has its radix cache off. A step is the time
of a long request less that of one of 8 tokens, over the tokens between; the prompt's time is in
both and falls out.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import urllib.request

SHORT = 8


def seconds(url: str, batch: int, prompt: int, tokens: int) -> float:
    """How long `batch` requests of random tokens take together."""
    ids = [[random.randrange(1000, 100_000) for _ in range(prompt)] for _ in range(batch)]
    params = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    body = json.dumps({"input_ids": ids, "sampling_params": params}).encode()
    request = urllib.request.Request(
        f"{url}/generate", data=body, headers={"Content-Type": "application/json"}
    )
    begun = time.perf_counter()
    with urllib.request.urlopen(request, timeout=600) as response:
        response.read()
    return time.perf_counter() - begun


def main() -> None:
    """Print the steps at each batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--prompt", type=int, default=1024)
    parser.add_argument("--tokens", type=int, default=520)
    asked = parser.parse_args()
    for batch in asked.batch:
        seconds(asked.url, batch, asked.prompt, SHORT)
        steps = []
        for _ in range(3):
            short = seconds(asked.url, batch, asked.prompt, SHORT)
            whole = seconds(asked.url, batch, asked.prompt, asked.tokens)
            steps.append((whole - short) / (asked.tokens - SHORT) * 1e3)
        each = ", ".join(f"{step:.2f}" for step in steps)
        print(f"batch {batch}: {each} ms, median {statistics.median(steps):.2f}")


if __name__ == "__main__":
    main()
