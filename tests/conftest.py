"""What every test may use: the shipped content, its rules, and golden files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configurator.content import Library
from configurator.loader import Validators, load_validators

GOLDEN = Path(__file__).parent / "golden"

Golden = Callable[[str, Any], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden`: write what is instead of comparing with what was."""
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/")


@pytest.fixture(scope="session")
def library() -> Library:
    """The built-in content."""
    return Library()


@pytest.fixture(scope="session")
def validators(library: Library) -> Validators:
    """The built-in rules and probes."""
    return load_validators(library.roots)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Golden files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def golden(update_golden: bool) -> Golden:
    """Compare data with `tests/golden/NAME`, or rewrite it with `--update-golden`."""

    def compare(name: str, data: Any) -> None:
        path = GOLDEN / name
        if update_golden:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(data, indent=2, ensure_ascii=False)
            path.write_text(f"{text}\n", encoding="utf-8")
        assert path.is_file(), f"no {path.name}: run pytest --update-golden and read the result"
        assert data == json.loads(path.read_text(encoding="utf-8"))

    return compare
