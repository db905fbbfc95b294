"""A small engine with the habits of the real one, for tests of the process that asks it."""

from __future__ import annotations

import json
from pathlib import Path

TORCH = """
import types
cuda = types.SimpleNamespace(is_available=lambda: False, get_device_capability=lambda *a: None)
version = types.SimpleNamespace(cuda=None, hip=None)
"""

COMMON = """
from functools import lru_cache
import torch

@lru_cache(maxsize=1)
def is_cuda():
    return torch.cuda.is_available() and torch.version.cuda is not None

@lru_cache(maxsize=1)
def get_device_capability():
    return torch.cuda.get_device_capability() if is_cuda() else None

def get_nvgpu_memory_capacity():
    raise FileNotFoundError("nvidia-smi")
"""

ARGUMENTS = """
import argparse, json, logging, os, socket, subprocess, sys, time
import torch
from sglang.srt.utils.common import get_device_capability, get_nvgpu_memory_capacity, is_cuda

logger = logging.getLogger("sglang.arguments")
_is_cuda = is_cuda()
SEEN = []


class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", required=True)
        parser.add_argument("--device")
        parser.add_argument("--tp-size", "--tp", type=int, default=1)
        parser.add_argument("--page-size", type=int)
        parser.add_argument("--backend", choices=["auto", "fa3", "trtllm"], default="auto")
        parser.add_argument("--trouble")
        parser.add_argument("--api-key")
        parser.add_argument("--speculative-draft-model-path")

    def resolve_once(self):
        print("the engine prints to stdout")
        self.values["model_type"] = None
        if self.values["model_path"] not in ("dummy", "none"):
            with open(os.path.join(self.values["model_path"], "config.json")) as file:
                self.values["model_type"] = json.load(file)["model_type"]
        if self.values["model_type"] == "alien":
            raise ValueError("unknown model type alien")
        self.values["cuda"] = [is_cuda(), _is_cuda, get_device_capability()]
        self.values["memory"] = get_nvgpu_memory_capacity() if is_cuda() else None
        self.values["seen"] = list(SEEN)
        self.values["hint"] = os.environ.get("SGLANG_HINT")
        SEEN.append(self.values["page_size"])
        os.environ["SGLANG_HINT"] = "left by the engine"
        getattr(self, "trouble_" + str(self.values["trouble"]), lambda: None)()
        if self.values["backend"] == "trtllm" and self.values["page_size"] == 1:
            logger.warning("\\x1b[33mtrtllm needs pages of 64\\x1b[0m")
            self._resolved_overrides = [("page_rule", {"page_size": 64})]
            self.values["page_size"] = 64

    def trouble_value(self):
        raise ValueError(f"page_size {self.values['page_size']} is wrong in "
                         + self.values["model_path"])

    def trouble_network(self):
        socket.create_connection(("127.0.0.1", 9), timeout=1)

    def trouble_program(self):
        subprocess.run(["true"])

    def trouble_import(self):
        import a_package_that_nobody_has

    def trouble_hang(self):
        time.sleep(60)

    def trouble_abort(self):
        os.abort()

    def check_server_args(self):
        assert self.values["tp_size"] > 0, "tp_size must be positive"

    def resolved_dict(self):
        return dict(self.values)


def prepare_server_args(argv):
    parser = argparse.ArgumentParser(prog="sglang serve")
    ServerArgs.add_cli_args(parser)
    args = ServerArgs()
    args.values = vars(parser.parse_args(argv))
    return args
"""


def write_engine(folder: Path, version: str = "0.5.23", arguments: str = ARGUMENTS) -> Path:
    """Put the small engine into `folder`, to be named in PYTHONPATH."""
    files = {
        "torch.py": TORCH,
        "sglang/__init__.py": "",
        "sglang/srt/__init__.py": "",
        "sglang/srt/utils/__init__.py": "",
        "sglang/srt/utils/common.py": COMMON,
        "sglang/srt/server_args.py": arguments,
        f"sglang-{version}.dist-info/METADATA": f"Name: sglang\nVersion: {version}\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def write_model(folder: Path, model_type: str = "llama", **more: object) -> Path:
    """A checkpoint that is only a config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": model_type, **more}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
