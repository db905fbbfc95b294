"""What a plan asks."""

from __future__ import annotations

from configurator.collector import plan
from configurator.collector.plan import Plan


def test_the_built_in_prompts_are_24_different_ones() -> None:
    texts = [body["text"] for _, body in Plan(level=2).alone(tokenizer=True)]
    assert len(set(texts)) == 24
    assert len({plan._easy(i) for i in range(300)}) == 300
