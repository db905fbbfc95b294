"""Small engines, written the three ways in which the real one has defined its options."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

SERVER_ARGS = "sglang/srt/server_args.py"

Tree = Callable[..., Path]

CALLS = {
    SERVER_ARGS: """
        import argparse
        import dataclasses
        import json
        from sglang.srt.backends import Backend, BACKENDS, extra_backends

        QUANTIZATIONS = ["fp8", "awq"]
        QUANTIZATIONS += ["mxfp4"]

        @dataclasses.dataclass
        class ServerArgs:
            tp_size: int = 1
            backend: str = "auto"
            sizes: list = dataclasses.field(default_factory=lambda: [1, 2])

            @staticmethod
            def add_cli_args(parser: argparse.ArgumentParser):
                parser.add_argument(
                    "--tensor-parallel-size", "--tp-size", type=int, default=ServerArgs.tp_size)
                parser.add_argument("--backend", choices=["auto"] + BACKENDS + extra_backends())
                parser.add_argument("--moe", type=str, choices=[b.value for b in Backend])
                parser.add_argument("--quantization", choices=QUANTIZATIONS)
                parser.add_argument("--sizes", type=int, nargs="+", default=ServerArgs.sizes)
                parser.add_argument("--overrides", type=json.loads, default="{}")
                parser.add_argument("--warmup", action="store_true", help="Warm up.")
                parser.add_argument("--overlap", action=argparse.BooleanOptionalAction)
                parser.add_argument(
                    "--old-moe", action="store_true", help="(Deprecated) Use --moe=triton.")
                parser.add_argument(
                    "--new", action="store_true", help="Replaces the deprecated --old-moe.")
                add_more(parser)

        def add_more(parser):
            for name in ("a", "b"):
                parser.add_argument(f"--more-{name}", type=float, default=0.5)
    """,
    "sglang/srt/backends.py": """
        from enum import Enum, auto
        from typing import Literal, get_args
        import torch

        Kind = Literal["fa3", "triton"]
        BACKENDS = list(get_args(Kind))

        class Backend(Enum):
            AUTO = "auto"
            TRITON = "triton"

        def extra_backends():
            found = []
            if torch.cuda.is_available():
                found.append("never")
            for name in ("x", "y"):
                found.append(name)
            return found
    """,
}

ANNOTATED = {
    SERVER_ARGS: """
        import dataclasses
        from typing import Annotated as A, List, Literal, Optional
        from sglang.srt.args import Arg, add_cli_args_from_dataclass
        from sglang.srt.actions import DeprecatedAliasStoreAction, DeprecatedAction

        @dataclasses.dataclass
        class ServerArgs:
            model_path: A[str, Arg(help="The model.", aliases=["--model"])]
            tp_size: A[int, Arg(help="Size.", aliases=["--tensor-parallel-size"])] = 1
            graph_bs: A[Optional[List[int]], "Batch sizes."] = None
            mode: A[Literal["fast", "slow"], "How."] = "fast"
            enable_lora: A[Optional[bool], "Adapters."] = None
            chunk: A[int | None, Arg(help="", type_parser=human_readable_int)] = None
            hidden: A[bool, Arg(no_cli=True)] = False
            plain: int = 3

            @staticmethod
            def add_cli_args(parser):
                add_cli_args_from_dataclass(parser, ServerArgs)
                parser.add_argument(
                    "--cuda-graph-bs", type=int, nargs="+", dest="graph_bs",
                    action=DeprecatedAliasStoreAction, new_flag="--graph-bs")
                parser.add_argument(
                    "--gone", action=DeprecatedAction, help="Note: --gone is deprecated now.")
    """,
}

NAMESPACES = {
    SERVER_ARGS: """
        from sglang.srt.fields.parallel import Parallel
        from sglang.srt.fields.serving import Serving
        from sglang.srt.args import add_cli_args_from_dataclass

        _INPUT_NAMESPACES = [Parallel, Serving]

        class ServerArgs:
            @staticmethod
            def add_cli_args(parser):
                add_cli_args_from_dataclass(parser)
                parser.add_argument("--seed", type=int, default=_declared_default("random_seed"))
    """,
    "sglang/srt/fields/__init__.py": "",
    "sglang/srt/fields/parallel.py": """
        import msgspec
        from typing import Annotated as A
        from ..choices import *

        class Base(msgspec.Struct):
            device: A[str, Arg(help="Device.", choices=DEVICES)] = "cuda"

        class Parallel(Base):
            tp_size: A[int, "Tensor parallel size."] = 1
    """,
    "sglang/srt/fields/serving.py": """
        import msgspec
        from typing import Annotated as A, Union

        class Serving(msgspec.Struct):
            host: A[str, "Host."] = "127.0.0.1"
            port: A["Union[int, None]", "Port."] = 30000
            random_seed: A[int, Arg(no_cli=True)] = 2**4
    """,
    "sglang/srt/choices.py": """
        DEVICES = ["cuda", "cpu"]
        DEVICES.append("xpu")
    """,
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Write an engine's files, by their names, and return the directory."""

    def write(files: dict[str, str], version: str | None = "1.2.3") -> Path:
        if version:
            files = {
                **files,
                f"sglang-{version}.dist-info/METADATA": f"Name: sglang\nVersion: {version}\n",
            }
        for name, text in files.items():
            path = tmp_path / "tree" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        return tmp_path / "tree"

    return write


@pytest.fixture(params=["calls", "annotated", "namespaces"])
def layout(request: pytest.FixtureRequest) -> dict[str, str]:
    """Each of the three layouts in turn."""
    return {"calls": CALLS, "annotated": ANNOTATED, "namespaces": NAMESPACES}[request.param]


@pytest.fixture
def calls() -> dict[str, str]:
    """The layout up to 0.5.12."""
    return CALLS


@pytest.fixture
def annotated() -> dict[str, str]:
    """The layout from 0.5.14 to 0.5.19."""
    return ANNOTATED


@pytest.fixture
def namespaces() -> dict[str, str]:
    """The layout since 0.5.20."""
    return NAMESPACES
