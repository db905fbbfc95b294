"""What a rendering demands: said in every file, and a profile edited beside it is noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stand_in import LIBRARY

from configurator.cli import run
from configurator.demo.server import RECORDINGS
from configurator.deployment import Deployment
from configurator.errors import ConfiguratorError
from configurator.render import TARGETS, fingerprint, write
from configurator.render.demands import demands, refuse_edited
from configurator.resolve import resolve

NAME = "ling-3.0-flash-spark"
HEAD = f"apiVersion: configurator/v1\nkind: Deployment\nname: same\nextends: {NAME}\n"
WEAKER = "optimizations: {nextn-mtp: {on_refuted: warn, acceptance: {floor: 1.2}}}\n"


def of(folder: Path, extra: str) -> Deployment:
    path = folder / "p.yaml"
    path.write_text(HEAD + extra)
    return resolve(*LIBRARY.profile(str(path)), LIBRARY)


@pytest.mark.parametrize(
    "extra",
    [
        "optimizations: {nextn-mtp: {on_refuted: warn}}\n",
        "optimizations: {nextn-mtp: {on_unproven: fail}}\n",
        "optimizations: {nextn-mtp: {acceptance: {floor: 1.2}}}\n",
        "optimizations: {nextn-mtp: {acceptance: {verify_cost_ratio: 1.1}}}\n",
        "evidence: {level: 2}\n",
        "workload: {sampling: {temperature: 0.0}}\n",
    ],
)
def test_demands_follow_policies_floors_and_the_workload(tmp_path: Path, extra: str) -> None:
    plain, other = of(tmp_path, ""), of(tmp_path, extra)
    assert fingerprint(plain) == fingerprint(other)
    assert demands(plain) != demands(other)


def test_demands_do_not_follow_words_for_people(tmp_path: Path) -> None:
    plain = demands(of(tmp_path, ""))
    assert plain == demands(of(tmp_path, "description: other words\n"))
    assert plain == demands(of(tmp_path, "serving: {port: 31000}\n"))
    assert re.fullmatch("[0-9a-f]{16}", plain)


@pytest.mark.parametrize("target", TARGETS)
def test_a_rendered_profile_is_what_its_first_line_says(tmp_path: Path, target: str) -> None:
    files = TARGETS[target](of(tmp_path, ""))
    write(files, tmp_path / "out")
    deployment = resolve(*LIBRARY.profile(str(tmp_path / "out" / "profile.yaml")), LIBRARY)
    refuse_edited(deployment)
    said = f", launch {fingerprint(deployment)}, demands {demands(deployment)}"
    for file in files:
        if not file.path.startswith("probe/"):
            assert said in "\n".join(file.text.splitlines()[:8]), file.path


def edited(folder: Path, old: str, new: str) -> Path:
    write(TARGETS["bash"](of(folder, "")), folder / "out")
    path = folder / "out" / "profile.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


def test_an_edited_profile_is_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = of(tmp_path, "")
    path = edited(tmp_path, "floor: 2.0", "floor: 1.2")
    after = resolve(*LIBRARY.profile(str(path)), LIBRARY)
    with pytest.raises(ConfiguratorError, match="RND008"):
        refuse_edited(after)
    words = ["check", str(path), "--replay", str(RECORDINGS / "healthy")]
    assert run(words) == 2
    said = capsys.readouterr().err
    launch = fingerprint(before)
    assert (
        f"{path}:1:1: RND008 this profile was rendered by 0.1.0 as launch {launch}, demands "
        f"{demands(before)}, and is launch {launch}, demands {demands(after)}"
    ) in said
    # A profile of one's own, without that line, is judged as it is.
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    assert run(words) != 2


def test_another_launch_is_not_checked_either(tmp_path: Path) -> None:
    path = edited(tmp_path, "steps: 3", "steps: 2")
    with pytest.raises(ConfiguratorError, match=r"RND008.* and is launch (?!efc9)"):
        refuse_edited(resolve(*LIBRARY.profile(str(path)), LIBRARY))


def test_drift_says_what_is_demanded_with_both_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = edited(tmp_path, "floor: 2.0", "floor: 1.2")
    held = resolve(*LIBRARY.profile(str(path)), LIBRARY)
    profile = of(tmp_path, "")
    words = ["render", str(tmp_path / "p.yaml"), "--check", str(path.parent)]
    assert run(words) == 1
    said = capsys.readouterr().out
    assert f"{path} demands {demands(held)}, the profile {demands(profile)}:" in said
    name = "optimizations.nextn-mtp (draft-tokens): floor"
    assert f"  {name} is 1.2, the profile has 2.0" in said


def test_drift_of_the_profile_that_is_rendered_is_said_so_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(TARGETS["bash"](of(tmp_path, WEAKER)), tmp_path / "out")
    of(tmp_path, "")
    assert run(["render", str(tmp_path / "p.yaml"), "--check", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().out
    assert 'on_refuted is "warn", the profile has "drop"' in said
    assert "floor is 1.2, the profile has 2.0" in said


def test_a_profile_that_cannot_be_resolved_is_changed_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = edited(tmp_path, "floor: 2.0", "flor: 2.0")
    assert run(["render", str(tmp_path / "p.yaml"), "--check", str(path.parent)]) == 1
    said = capsys.readouterr().out
    assert f"{path} is changed from line" in said
    assert "demands" not in said
