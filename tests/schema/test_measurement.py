"""Measured steps: what an entry must say, and what it comes to."""

from __future__ import annotations

import pytest

from configurator.errors import ConfiguratorError
from configurator.schema.base import parse
from configurator.schema.measurement import Measurement
from configurator.source import parse_source

GOOD = """\
apiVersion: configurator/v1
kind: Measurement
name: example
summary: An example
hardware: h200
model: qwen3-8b
batch: 4
tokens_per_s: 800
accepted: 2.5
measured_by: somebody
date: 2026-08
conditions: {workload: random}
sources: [a page]
"""


def read(text: str) -> Measurement:
    source = parse_source(text, "m.yaml")
    return parse(Measurement, source.data, lambda path: source.nearest(path)[1])


def test_a_rate_over_the_batch_is_a_time_a_token_and_a_step() -> None:
    found = read(GOOD)
    assert found.per_token == pytest.approx(4 / 800)
    assert found.step == pytest.approx(2.5 * 4 / 800)
    plain = read(GOOD.replace("tokens_per_s: 800\naccepted: 2.5", "tpot_ms: 5"))
    assert (plain.per_token, plain.step, plain.accepted) == (0.005, 0.005, None)


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("sources: [a page]", "sources: []", "give its source"),
        ("conditions: {workload: random}", "conditions: {}", "give its 'conditions'"),
        ("conditions: {workload: random}\n", "", "conditions"),
        ("tokens_per_s: 800", "tokens_per_s: 800\ntpot_ms: 5", "exactly one of 'tpot_ms'"),
        ("tokens_per_s: 800\n", "", "exactly one of 'tpot_ms'"),
        ("tokens_per_s: 800", "tokens_per_s: 0", "tokens_per_s"),
        ("accepted: 2.5", "accepted: 0.9", "accepted"),
        ("date: 2026-08", "date: last summer", "date"),
        ("batch: 4", "batch: 4\ntopology: {replicas: 2}", "is of one replica"),
        ("measured_by: somebody\n", "", "measured_by"),
        ("accepted: 2.5", "plain_ms: 5", "stands beside a speculative step"),
        ("batch: 4", "bacth: 4", "bacth"),
    ],
)
def test_what_no_measurement_can_be_is_refused(old: str, new: str, fact: str) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        read(GOOD.replace(old, new))
    assert any(fact in str(problem) for problem in caught.value.problems)
