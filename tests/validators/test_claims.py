"""The rules on published figures that a profile refers to."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.content import Library
from configurator.loader import Validators
from configurator.validate import validate

HEAD = "apiVersion: configurator/v1\nkind: Deployment\nname: mine\n"


def found(folder: Path, text: str, library: Library, validators: Validators) -> dict[str, str]:
    path = folder / "profile.yaml"
    path.write_text(HEAD + text)
    result = validate(str(path), library, validators)
    assert result.deployment is not None, result.findings
    return {f.code: f.message for f in result.findings if f.code.startswith("CLM")}


@pytest.mark.parametrize(
    ("claim", "codes"),
    [
        # Of its model and mechanisms, and of the same conditions.
        ("ling-three-optimizations-latency-11.49", {"CLM101"}),
        # Of its model, with other mechanisms.
        ("ling-cell-off-c1-tpot-25.76", {"CLM101", "CLM103"}),
        # Of one of its mechanisms, with another model.
        ("field-glm47-accepted-6.83", {"CLM101", "CLM103"}),
        # Of neither.
        ("muse-megakernel-decode-1109", {"CLM102"}),
        ("no-such-figure", {"CLM102"}),
    ],
)
def test_a_profile_may_refer_to_figures_of_its_model_or_mechanisms(
    claim: str, codes: set[str], tmp_path: Path, library: Library, validators: Validators
) -> None:
    text = f"extends: ling-3.0-flash-spark\nclaims: [{claim}]\n"
    assert set(found(tmp_path, text, library, validators)) == codes


def test_what_is_computed_is_told_as_such(
    tmp_path: Path, library: Library, validators: Validators
) -> None:
    text = "extends: ling-3.0-flash-spark\nclaims: [ling-derived-ratio-2.05]\n"
    told = found(tmp_path, text, library, validators)["CLM101"]
    assert "computed and not published: 9.09 GB / 4.43 GB" in told


def test_who_contradicts_a_figure_is_told(
    tmp_path: Path, library: Library, validators: Validators
) -> None:
    text = "extends: ling-3.0-flash-spark-dspark\nclaims: [ling-cell-dspark-c1-tpot-9.48]\n"
    told = found(tmp_path, text, library, validators)["CLM101"]
    assert "contradicted by 0xBakeer: median 16.9 ms over prompts, 9.6 to 39.9 ms" in told


def test_every_condition_that_differs_is_told(
    tmp_path: Path, library: Library, validators: Validators
) -> None:
    text = (
        "extends: ling-3.0-flash-spark\nclaims: [ling-three-optimizations-53.89]\n"
        "workload: {concurrency: 8, text: support chat, sampling: {temperature: 1.0}}\n"
    )
    assert found(tmp_path, text, library, validators)["CLM103"] == (
        "decode throughput with Humming, FP8 LM head and NEXTN together (53.89 tok/s) was measured "
        "under other conditions: concurrency: 1 there, 8 here; workload: GSM8K there, support chat "
        "here; temperature: 0.6 there, 1 here"
    )
