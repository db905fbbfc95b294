"""Names, requirements, scripts and the entries of an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from configurator.engine.flags import extract_flags
from configurator.engine.names import extract_entry, extract_names
from configurator.engine.records import Entry, Name, NameKind
from configurator.engine.sources import SourceTree

Tree = Callable[..., Path]

ENGINE = {
    "sglang/srt/server_args.py": """
        BACKENDS = ["auto", "triton"]
        class ServerArgs:
            def add_cli_args(parser):
                parser.add_argument("--moe-runner-backend", choices=BACKENDS)
                parser.add_argument("--attention-backend", choices=["fa3"])
                parser.add_argument("--quantization", choices=["fp8"])
                parser.add_argument("--speculative-algorithm")
                parser.add_argument("--tool-call-parser", choices=["qwen"])
        def prepare_server_args(argv):
            if "--config" in argv:
                pass
    """,
    "sglang/srt/layers/moe/utils.py": """
        from enum import Enum
        class MoeRunnerBackend(Enum):
            AUTO = "auto"
            TRITON = "triton"
            HIDDEN = "hidden"
    """,
    "sglang/srt/layers/attention/attention_registry.py": """
        @register_attention_backend("fa3")
        def a(): ...
        @register_attention_backend("extra")
        def b(): ...
    """,
    "sglang/srt/layers/quantization/__init__.py": """
        BASE = {"fp8": Fp8Config}
        BASE.update({"quark": QuarkConfig})
        QUANTIZATION_METHODS = {**BASE}
    """,
    "sglang/srt/speculative/spec_info.py": """
        from enum import Enum, auto
        _RESERVED_ALIASES = frozenset({"NEXTN"})
        class SpeculativeAlgorithm(Enum):
            EAGLE = auto()
            NGRAM = auto()
            NONE = auto()
            @classmethod
            def from_string(cls, name):
                algorithm = name.upper()
                if algorithm in _RESERVED_ALIASES:
                    return cls.EAGLE
    """,
    "sglang/srt/plugins/__init__.py": """
        GENERAL_GROUP = "sglang.srt.plugins"
        found = entry_points(group=GENERAL_GROUP) + entry_points(group="sglang.other")
    """,
    "sglang-1.2.3.dist-info/METADATA": (
        "Name: sglang\nVersion: 1.2.3\nRequires-Python: >=3.11\n"
        "Requires-Dist: torch==2.9.1\nRequires-Dist: humming-kernels[cu13]==0.1.12\n"
        'Requires-Dist: pytest; extra == "test"\nRequires-Dist: av==1; sys_platform == "linux"\n'
        "\nRequires-Dist: not-this==1\n"
    ),
    "sglang-1.2.3.dist-info/entry_points.txt": (
        "[console_scripts]\nsglang = sglang.cli.main:main\n"
    ),
}


def names(path: Path) -> dict[NameKind, dict[str, str]]:
    tree = SourceTree(path)
    found: dict[NameKind, dict[str, str]] = {}
    for name in extract_names(tree, extract_flags(tree)):
        assert isinstance(name, Name)
        found.setdefault(name.kind, {})[name.name] = name.detail
    return found


def test_every_kind_of_name(tree: Tree) -> None:
    assert names(tree(ENGINE, version=None)) == {
        "moe-runner-backend": {"auto": "", "triton": "", "hidden": "unlisted"},
        "attention-backend": {"fa3": "", "extra": "unlisted"},
        "quantization": {"fp8": "", "quark": "unlisted"},
        "speculative-algorithm": {"EAGLE": "", "NGRAM": "", "NEXTN": "EAGLE"},
        "tool-call-parser": {"qwen": ""},
        "plugin-group": {"sglang.srt.plugins": "", "sglang.other": ""},
        "requirement": {
            "python": ">=3.11", "torch": "==2.9.1", "humming-kernels": "[cu13]==0.1.12",
            "av": '==1; sys_platform == "linux"',
        },
        "script": {"sglang": "sglang.cli.main:main"},
    }  # fmt: skip


def test_an_algorithm_that_is_renamed_by_assignment(tree: Tree) -> None:
    found = names(
        tree(
            {
                "sglang/srt/server_args.py": """
                class ServerArgs:
                    def add_cli_args(parser):
                        parser.add_argument("--speculative-algorithm", choices=["EAGLE", "NEXTN"])
                    def resolve(self):
                        if self.speculative_algorithm == "NEXTN":
                            self.speculative_algorithm = "EAGLE"
                        if self.speculative_algorithm == "EAGLE":
                            self.other = "X"
                """
            }
        )
    )
    assert found["speculative-algorithm"] == {"EAGLE": "", "NEXTN": "EAGLE"}


def test_an_engine_without_any(tree: Tree) -> None:
    path = tree({"sglang/srt/server_args.py": "class ServerArgs: ..."}, version=None)
    assert names(path) == {}
    assert extract_entry(SourceTree(path)) == Entry()


def test_requirements_of_a_checkout(tree: Tree) -> None:
    path = tree(
        {
            "sglang/srt/server_args.py": "class ServerArgs: ...",
            "pyproject.toml": """
                [project]
                name = "sglang"
                requires-python = ">=3.10"
                dependencies = ["torch==2.9.1"]
                scripts = {sglang = "sglang.cli.main:main"}
            """,
        },
        version=None,
    )
    assert names(path) == {
        "requirement": {"python": ">=3.10", "torch": "==2.9.1"},
        "script": {"sglang": "sglang.cli.main:main"},
    }


POSITIONAL = """
    def take(words):
        if words[0] == "--x":
            pass
        for word in words:
            if word == "--model-type":
                continue
        return ["--model-path", words[0], *words[1:]], True
"""
HELPERS = """
    def model(words):
        for word in words:
            if word in ("--model-path", "--model"):
                return next
            elif word.startswith("--model-path=") or word in ("-h", "--help"):
                raise Exception("Error: --model-path is required.")
"""
PLAIN = """
    def model(words):
        return ["--model-path", words]
"""


@pytest.mark.parametrize(
    ("serve", "expected"),
    [
        (POSITIONAL, Entry(True, True, ("model-type",), ("model", "model-path"), True)),
        (PLAIN, Entry(True, False, (), ("model", "model-path"), True)),
    ],
)
def test_the_entry(tree: Tree, serve: str, expected: Entry) -> None:
    files = {"sglang/cli/serve.py": serve, "sglang/cli/utils.py": HELPERS}
    path = tree(ENGINE | files, version=None)
    assert extract_entry(SourceTree(path)) == expected


def test_a_parser_without_abbreviations(tree: Tree) -> None:
    path = tree(
        {
            "sglang/srt/server_args.py": """
            class ServerArgs: ...
            def prepare_server_args(argv):
                parser = argparse.ArgumentParser(allow_abbrev=False)
            """
        }
    )
    assert extract_entry(SourceTree(path)).abbreviations is False
