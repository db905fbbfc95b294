"""The shipped catalogue, and the file it comes from."""

from __future__ import annotations

import lzma
import time
from pathlib import Path

import pytest

from configurator.content import Library
from configurator.engine.catalogue import (
    Architecture,
    Catalogue,
    Entry,
    Flag,
    Name,
    Retired,
    Store,
    Variable,
    available_versions,
    catalogue_of,
    load_catalogue,
    order,
    shipped,
    versions_with,
)
from configurator.errors import ConfiguratorError
from configurator.schema.content import Engine


def of(version: str) -> Catalogue:
    found = load_catalogue(version)
    assert found is not None
    return found


def test_every_stable_release_since_0_5_1_is_shipped() -> None:
    versions = available_versions()
    assert len(versions) == 42
    assert versions[:2] == ("0.5.1", "0.5.1.post1")
    assert versions[-2:] == ("0.5.22", "0.5.23")
    assert list(versions) == sorted(versions, key=order)
    assert load_catalogue("0.4.9") is None


# Counts of the parser and the registry that the installed releases build (0.5.9, 0.5.20 and
# 0.5.23), and of their sources.
@pytest.mark.parametrize(
    ("version", "flags", "variables"),
    [
        ("0.5.1", 199, 0),
        ("0.5.3", 246, 64),
        ("0.5.9", 331, 209),
        ("0.5.12", 387, 295),
        ("0.5.14", 420, 406),
        ("0.5.17", 474, 532),
        ("0.5.20", 494, 623),
        ("0.5.23", 531, 770),
    ],
)
def test_counts(version: str, flags: int, variables: int) -> None:
    known = of(version)
    assert len({flag.name for flag in known.flags.values()}) == flags
    assert len(known.variables) == variables


def test_flags_of_0_5_23() -> None:
    known = of("0.5.23")
    tensor = known.flag("--tp-size")
    assert tensor is known.flag("tensor-parallel-size")
    assert tensor is not None
    assert (tensor.type, tensor.default, tensor.nargs) == ("int", 1, None)
    runner = known.flags["moe-runner-backend"]
    assert len(runner.choices) == 22
    assert {"auto", "humming", "flashinfer_mxfp4", "lora_triton"} < set(runner.choices)
    assert known.flags["enable-nvidia-megakernel"].type is None
    assert known.flags["disable-cuda-graph"].deprecated == (
        "--cuda-graph-backend-{decode,prefill}=disabled"
    )
    assert known.flags["cuda-graph-bs-decode"].nargs == "+"
    assert known.flags["chunked-prefill-size"].type == "int"
    assert known.flags["max-total-tokens"].type == "size"
    assert known.flags["lora-paths"].nargs == "*"
    assert known.flags["json-model-override-args"].default == "{}"
    assert known.flags["smg-grpc-mode"].deprecated is None


def test_what_changed_from_0_5_17_to_0_5_23() -> None:
    old, new = of("0.5.17"), of("0.5.23")
    assert old.flags["cuda-graph-max-bs"].deprecated == "--cuda-graph-max-bs-decode"
    assert new.flag("cuda-graph-max-bs") is None
    assert old.flag("enable-nvidia-megakernel") is None
    assert versions_with("flags", "cuda-graph-max-bs") == "0.5.1 to 0.5.19"
    assert versions_with("flags", "enable-nvidia-megakernel") == "0.5.23"
    assert versions_with("flags", "nothing-of-the-kind") == ""


def test_variables_of_0_5_23() -> None:
    known = of("0.5.23")
    assert known.variables["SGLANG_HUMMING_INPUT_QUANT_CONFIG"].type == "json"
    assert known.variables["SGLANG_ENABLE_TORCH_INFERENCE_MODE"] == Variable(
        "SGLANG_ENABLE_TORCH_INFERENCE_MODE", "bool", False
    )
    assert known.knows_env("SGLANG_USE_CPU_ENGINE")
    assert "SGLANG_USE_CPU_ENGINE" in known.env_read
    assert known.retired["SGLANG_USE_TRITON_ROUTER_SUM"].replacement == (
        "SGLANG_USE_CUSTOM_ROUTER_SUM"
    )
    assert known.renamed("SGL_LOG_GC") == "SGLANG_LOG_GC"
    assert known.knows_env("SGL_LOG_GC")
    assert not known.knows_env("SGL_NO_SUCH_THING")
    for version in available_versions():
        assert not of(version).knows_env("SGLANG_ENABLE_FP8_LM_HEAD"), version
    assert versions_with("env", "SGLANG_ENABLE_FP8_LM_HEAD") == ""


@pytest.mark.parametrize(
    ("name", "kind", "names"),
    [
        ("tp-size", "exact", ("tp-size",)),
        ("--tensor-parallel-size", "alias", ("tensor-parallel-size",)),
        ("tp", "prefix", ("tp-size",)),
        ("enable-torch-compil", "ambiguous",
         ("enable-torch-compile", "enable-torch-compile-debug-mode")),
        ("cuda-graph-max-bs", "ambiguous",
         ("cuda-graph-max-bs-decode", "cuda-graph-max-bs-prefill")),
        ("tp_size", "unknown", ()),
        ("", "unknown", ()),
        ("--", "unknown", ()),
    ],
)  # fmt: skip
def test_names_as_the_engine_reads_them(name: str, kind: str, names: tuple[str, ...]) -> None:
    found = of("0.5.23").resolve(name)
    assert (found.kind, found.names) == (kind, names)


def test_a_build_is_its_release_with_what_it_adds_and_removes(library: Library) -> None:
    build = library.engine("ling-v3-mxfp4-humming")
    assert catalogue_of(build) is None
    changes = {
        "base": {"release": "0.5.23"},
        "adds": {"env": ["SGLANG_ENABLE_FP8_LM_HEAD"], "args": ["own-flag"]},
        "removes": {"env": ["SGLANG_LOG_GC"], "args": ["tp-size"]},
    }
    known = catalogue_of(Engine.model_validate(build.model_dump(by_alias=True) | changes))
    assert known is not None
    assert known.knows_env("SGLANG_ENABLE_FP8_LM_HEAD")
    assert not known.knows_env("SGLANG_LOG_GC")
    assert known.flags["own-flag"].type == "any"
    assert known.resolve("tp-size").kind == "unknown"
    assert of("0.5.23").resolve("tp-size").kind == "exact", "the shipped one is as it was"
    released = catalogue_of(library.engine("sglang-0.5.17"))
    assert released is not None
    assert released.version == "0.5.17"


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    flag = Flag("a", ("b",), "int", 3, ("3", "4"), "+", "")
    first = Catalogue.of("0.5.9", [flag], [Variable("V", "bool", False)], [Retired("W")], ["X"])
    second = Catalogue.of(
        "0.5.10", [flag, Flag("z", required=True, refused=True)], [Variable("V", "bool", True)], [],
        ["X"], [Name("script", "s", "m:f"), Name("quantization", "q")],
        [Architecture("A", "m", ("D", "E"), "module")],
        Entry(True, True, ("o",), ("p",), True, False),
    )  # fmt: skip
    store = Store(tmp_path / "c.json.xz")
    assert store.versions == ()
    store.write([second, first])
    again = Store(store.path)
    assert again.versions == ("0.5.9", "0.5.10")
    assert again.load("0.5.9") == first
    assert again.load("0.5.10") == second
    assert again.having("flags", "b") == ("0.5.9", "0.5.10")
    assert again.having("env", "X") == ("0.5.9", "0.5.10")
    assert again.having("env", "W") == ("0.5.9",)
    assert again.history("variables", "V") == [
        (("0.5.9",), Variable("V", "bool", False)), (("0.5.10",), Variable("V", "bool", True)),
    ]  # fmt: skip
    assert list(again.records("flags")) == [
        (("0.5.9", "0.5.10"), flag), (("0.5.10",), Flag("z", required=True, refused=True)),
    ]  # fmt: skip
    again.write([Catalogue.of("0.5.9", [])])
    assert Store(store.path).having("flags", "a") == ("0.5.10",)


@pytest.mark.parametrize(
    "content", [b"", b"text", lzma.compress(b"[]"), lzma.compress(b'{"a": 1}')]
)
def test_what_is_no_catalogue(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "c.json.xz"
    path.write_bytes(content)
    with pytest.raises(ConfiguratorError, match="CAT004"):
        Store(path)


def test_a_post_release_follows_its_release() -> None:
    names = ["0.5.10", "0.5.9", "0.5.9.post1", "0.5.9.post10", "0.5.9.post2", "0.5.10rc1",
             "0.5.10.dev2", "nightly"]  # fmt: skip
    assert sorted(names, key=order) == [
        "nightly", "0.5.9", "0.5.9.post1", "0.5.9.post2", "0.5.9.post10", "0.5.10.dev2",
        "0.5.10rc1", "0.5.10",
    ]  # fmt: skip


def test_loading_is_fast() -> None:
    best = min(_seconds() for _ in range(5))
    # About 0.012 s on the machine it was written on; the bound catches a change of kind.
    assert best < 0.1
    assert shipped().path.stat().st_size < 100_000


def _seconds() -> float:
    start = time.perf_counter()
    Store().load("0.5.23")
    return time.perf_counter() - start
