"""The deployments that other tests render: the same every time, and wild enough."""

from __future__ import annotations

from pathlib import Path

from render.generated import generated, started

from configurator.render.files import fingerprint
from configurator.render.launches import Folders, launches
from configurator.schema.profile import SecretRef


def test_they_are_the_same_every_time_and_wild(tmp_path: Path) -> None:
    made = list(generated(tmp_path))
    again = list(generated(tmp_path, 10))
    assert [fingerprint(one) for one in made[:10]] == [fingerprint(one) for one in again]
    found = [launch for one in made for launch in launches(one, Folders("/b", "/r"))]
    assert any(launch.process.role == "router" for launch in found)
    assert any(launch.process.rank > 0 for launch in found)
    assert any(dict(launch.declared).get("PYTHONPATH") for launch in found)
    words = [word for launch in found for word in launch.argv]
    assert {bool(word.env) for word in words if isinstance(word, SecretRef)} == {True, False}
    ends = started(found[0], lambda word: "a", lambda reference: "k")
    assert ends.argv[0] == "python3"
    assert any("\n" in value for launch in found for _, value in launch.env)
