"""Options are read from all three layouts, with exact values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from configurator.engine.catalogue import Flag
from configurator.engine.flags import extract_flags
from configurator.engine.sources import SourceTree
from configurator.errors import ConfiguratorError

Tree = Callable[..., Path]
Files = dict[str, str]


def flags(path: Path) -> dict[str, Flag]:
    return {flag.name: flag for flag in extract_flags(SourceTree(path))}


def test_calls_of_add_argument(tree: Tree, calls: Files) -> None:
    found = flags(tree(calls))
    assert found == {
        flag.name: flag
        for flag in (
            Flag("tensor-parallel-size", ("tp-size",), "int", 1),
            Flag("backend", (), "str", choices=("auto", "fa3", "triton", "x", "y")),
            Flag("moe", (), "str", choices=("auto", "triton")),
            Flag("quantization", (), "str", choices=("fp8", "awq", "mxfp4")),
            Flag("sizes", (), "int", [1, 2], nargs="+"),
            Flag("overrides", (), "json", "{}"),
            Flag("warmup", (), None, False),
            Flag("overlap", ("no-overlap",), None),
            Flag("old-moe", (), None, False, deprecated="--moe=triton"),
            Flag("new", (), None, False),
            Flag("more-a", (), "float", 0.5),
            Flag("more-b", (), "float", 0.5),
        )
    }


def test_annotated_fields(tree: Tree, annotated: Files) -> None:
    found = flags(tree(annotated))
    assert found == {
        flag.name: flag
        for flag in (
            Flag("model-path", ("model",), "str", required=True),
            Flag("tp-size", ("tensor-parallel-size",), "int", 1),
            Flag("graph-bs", (), "int", nargs="+"),
            Flag("mode", (), "str", "fast", ("fast", "slow")),
            Flag("enable-lora", (), None, None),
            Flag("chunk", (), "size"),
            Flag("cuda-graph-bs", (), "int", nargs="+", deprecated="--graph-bs"),
            Flag("gone", (), None, deprecated=""),
        )
    }


def test_namespaces(tree: Tree, namespaces: Files) -> None:
    found = flags(tree(namespaces))
    assert found == {
        flag.name: flag
        for flag in (
            Flag("device", (), "str", "cuda", ("cuda", "cpu", "xpu")),
            Flag("tp-size", (), "int", 1),
            Flag("host", (), "str", "127.0.0.1"),
            Flag("port", (), "int", 30000),
            Flag("seed", (), "int", 16),
        )
    }


def test_choices_that_only_a_running_engine_knows_are_left_open(tree: Tree) -> None:
    found = flags(
        tree(
            {
                "sglang/srt/server_args.py": """
                import plugins
                class ServerArgs:
                    def add_cli_args(parser):
                        parser.add_argument("--a", choices=plugins.names(), default=plugins.first)
                        parser.add_argument("--b", choices=["x", *plugins.names()])
                        parser.add_argument(plugins.option)
                """
            }
        )
    )
    assert found == {"a": Flag("a", (), "str"), "b": Flag("b", (), "str")}


def test_a_definition_in_a_circle_ends(tree: Tree) -> None:
    found = flags(
        tree(
            {
                "sglang/srt/server_args.py": """
                from sglang.srt.other import NAMES
                def again(x):
                    return again(x)
                class ServerArgs:
                    def add_cli_args(parser):
                        parser.add_argument("--a", choices=NAMES, default=again(1))
                """,
                "sglang/srt/other.py": "from sglang.srt.server_args import NAMES",
            }
        )
    )
    assert found == {"a": Flag("a", (), "str")}


def test_no_class_of_arguments(tree: Tree) -> None:
    path = tree({"sglang/srt/server_args.py": "ServerArgs = None"})
    with pytest.raises(ConfiguratorError, match=r"CAT002 .* has no class ServerArgs"):
        flags(path)


def test_options_that_are_known_only_to_be_refused(tree: Tree) -> None:
    found = flags(
        tree(
            {
                "sglang/srt/server_args.py": """
                import argparse
                class DeprecatedAction(argparse.Action):
                    def __call__(self, parser, namespace, values, option_string=None):
                        if self.error_message is not None:
                            parser.error(self.error_message)
                        print_deprecated_warning(option_string)
                class RaisingAction(argparse.Action):
                    def __call__(self, parser, namespace, values, option_string=None):
                        raise ValueError(self.help)
                class DeprecatedStoreTrueAction(argparse.Action):
                    def __init__(self, option_strings, dest, nargs=0, default=False, **kwargs):
                        super().__init__(option_strings, dest, nargs=nargs, **kwargs)
                class ServerArgs:
                    def add_cli_args(parser):
                        parser.add_argument("--warned", action=DeprecatedAction, help="Gone.")
                        parser.add_argument(
                            "--ended", action=DeprecatedAction, error_message="Use  --new.")
                        parser.add_argument("--raised", action=RaisingAction, help="NOTE: --new")
                        parser.add_argument(
                            "--switch", action=DeprecatedStoreTrueAction, new_flag="--new")
                """
            }
        )
    )
    assert found == {
        "warned": Flag("warned", (), None, deprecated=""),
        "ended": Flag("ended", (), None, deprecated="Use --new.", refused=True),
        "raised": Flag("raised", (), "str", deprecated="NOTE: --new", refused=True),
        "switch": Flag("switch", (), None, False, deprecated="--new"),
    }


def test_only_single_values_are_asked_for(tree: Tree) -> None:
    found = flags(
        tree(
            {
                "sglang/srt/server_args.py": """
                class ServerArgs:
                    model: A[str, "The model."]
                    several: A[List[int], "Sizes."]
                    switch: A[bool, "Switch."]
                    mode: A[Literal["a", "b"], "Mode."]
                    free: A[str, Arg(help="Free.", required=False)]
                    asked: A[str, Arg(help="Asked.", required=True)] = "x"
                    def add_cli_args(parser):
                        add_cli_args_from_dataclass(parser, ServerArgs)
                        parser.add_argument("--old", required=True)
                """
            }
        )
    )
    assert {name for name, flag in found.items() if flag.required} == {"model", "asked", "old"}


def test_the_parser_is_read_as_it_is_without_any_variable(tree: Tree) -> None:
    found = flags(
        tree(
            {
                "sglang/srt/environ.py": """
                class Envs:
                    SGLANG_OFF = EnvBool(False)
                    SGLANG_ON = EnvBool(True)
                """,
                "sglang/srt/server_args.py": """
                import sys
                from sglang.srt.environ import envs
                CHOICES = {"a"}
                if envs.SGLANG_OFF.get():
                    CHOICES.add("b")
                if envs.SGLANG_ON.get():
                    CHOICES.add("c")
                if plugins.found():
                    CHOICES.add("d")
                class ServerArgs:
                    def add_cli_args(parser):
                        choices = set(CHOICES)
                        if envs.SGLANG_OFF.get():
                            choices.add("e")
                        parser.add_argument("--x", choices=choices, default=sys.maxsize, type=int)
                """,
            }
        )
    )
    assert found == {"x": Flag("x", (), "int", 2**63 - 1, ("a", "c", "d"))}
