"""Profile -> deployment: hosts, ranks, arguments, expectations."""

from __future__ import annotations

from pathlib import Path

import pytest

from configurator.content import Library
from configurator.deployment import Deployment, HostPlaceholder
from configurator.errors import ConfiguratorError
from configurator.resolve import resolve
from configurator.schema.profile import SecretRef

LIBRARY = Library()
HEAD = """\
apiVersion: configurator/v1
kind: Deployment
name: mine
engine: {version: 0.5.23}
"""
SMALL = HEAD + "hardware: {name: h200, gpus: 1}\nmodel: {name: qwen3-8b}\n"


def resolved(tmp_path: Path, text: str) -> Deployment:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return resolve(*LIBRARY.profile(str(path)), LIBRARY)


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(ConfiguratorError) as caught:
        resolved(tmp_path, text)
    return [f"{p.position} {p.code} {p.message}; {p.remedy}" for p in caught.value.problems]


def test_a_small_profile_becomes_one_process(tmp_path: Path) -> None:
    deployment = resolved(tmp_path, SMALL)
    (process,) = deployment.processes
    assert process.argv == (
        "python3", "-m", "sglang.launch_server",
        "--model-path", "Qwen/Qwen3-8B", "--tp-size", "1",
        *("--reasoning-parser", "qwen3", "--tool-call-parser", "qwen"),
        "--host", "127.0.0.1", "--enable-metrics", "--port", "30000",
    )  # fmt: skip
    assert dict(process.env) == {
        "SGLANG_EXPOSE_OWN_ENV_VARS": "1",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert (deployment.hosts, process.gpus, process.port) == (1, (0,), 30000)


def test_an_older_engine_is_not_given_a_variable_it_does_not_read(tmp_path: Path) -> None:
    deployment = resolved(tmp_path, SMALL.replace("0.5.23", "0.5.17"))
    assert "SGLANG_EXPOSE_OWN_ENV_VARS" not in deployment.env
    assert deployment.arg("enable-metrics") is True


def test_instrument_none_adds_nothing(tmp_path: Path) -> None:
    deployment = resolved(tmp_path, SMALL + "evidence: {instrument: none}\n")
    assert "enable-metrics" not in deployment.args
    assert deployment.env == {}


def test_replicas_share_a_host_with_their_own_gpus_and_ports(tmp_path: Path) -> None:
    text = SMALL.replace("gpus: 1", "gpus: 4") + "topology: {replicas: 2, tensor: 2}\n"
    first, second = resolved(tmp_path, text).processes
    assert (first.host, first.gpus, first.port) == (0, (0, 1), 30000)
    assert (second.host, second.gpus, second.port) == (0, (2, 3), 30001)
    assert dict(second.env)["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_one_instance_over_two_hosts(tmp_path: Path) -> None:
    text = (
        HEAD + "hardware: {name: gb300-nvl72, gpus: 8}\nmodel: {name: muse-spark-open-nvfp4}\n"
        "topology: {tensor: 8}\n"
    )
    deployment = resolved(tmp_path, text)
    assert (deployment.hosts, deployment.hosts_per_replica) == (2, 2)
    for rank, process in enumerate(deployment.processes):
        tail = process.argv[process.argv.index("--nnodes") :]
        assert tail == (
            "--nnodes", "2", "--node-rank", str(rank),
            "--dist-init-addr", HostPlaceholder(0, 0, 20000),
        )  # fmt: skip
        assert dict(process.env)["NCCL_MNNVL_ENABLE"] == "1"
        assert "CUDA_VISIBLE_DEVICES" not in dict(process.env)


def test_a_router_knows_every_replica() -> None:
    deployment = resolve(*LIBRARY.profile("muse-spark-open-gb300x8"), LIBRARY)
    *engines, router = deployment.processes
    assert [(p.replica, p.host, p.rank) for p in engines] == [(0, 0, 0), (1, 1, 0)]
    assert all("--nnodes" not in p.argv for p in engines)
    assert router.role == "router"
    assert [word for word in router.argv if isinstance(word, HostPlaceholder)] == [
        HostPlaceholder(0, 0, engines[0].port, "http"),
        HostPlaceholder(1, 0, engines[1].port, "http"),
    ]


def test_secrets_stay_references(tmp_path: Path) -> None:
    deployment = resolved(tmp_path, SMALL + "serving: {api_key: {file: /etc/key}}\n")
    argv = deployment.processes[0].argv
    assert argv[argv.index("--api-key") + 1] == SecretRef(file="/etc/key")


@pytest.mark.parametrize(
    ("more", "place", "fact"),
    [
        ("serving: {api_key: {env: KEY}}\nextra: {env: {KEY: x}}\n", "7:11",
         "serving.api_key takes the variable KEY, which extra.env gives the engine"),
        ("extra: {secrets: {A_TOKEN: {env: B}}, env: {B: x}}\n", "7:19",
         "extra.secrets.A_TOKEN takes the variable B, which extra.env gives the engine"),
        ("extra: {secrets: {SGLANG_EXPOSE_OWN_ENV_VARS: {env: B}}}\n", "7:19",
         "takes the variable SGLANG_EXPOSE_OWN_ENV_VARS, which evidence.instrument gives"),
        ("extra: {secrets: {CUDA_VISIBLE_DEVICES: {file: /b}}}\n", "7:19",
         "takes the variable CUDA_VISIBLE_DEVICES, which this process gives the engine"),
    ],
)  # fmt: skip
def test_a_secret_in_a_variable_that_the_engine_has_is_refused(
    tmp_path: Path, more: str, place: str, fact: str
) -> None:
    (said,) = problems(tmp_path, SMALL + more)
    assert f"{place} SCH007" in said
    assert fact in said


def test_extra_wins_and_what_it_replaced_is_kept(tmp_path: Path) -> None:
    text = SMALL + (
        "optimizations: {fp8-kv-cache: {}}\n"
        "extra: {args: {kv-cache-dtype: bf16, --page-size: 64, disable-radix-cache: true,\n"
        "  enable-metrics: false, cuda-graph-bs-decode: [1, 2]},\n"
        "  env: {NCCL_DEBUG: INFO, A_B: true}}\n"
    )
    deployment = resolved(tmp_path, text)
    assert deployment.arg("kv-cache-dtype") == "bf16"
    assert deployment.arg("page-size") == 64
    assert deployment.arg("enable-metrics") is None
    lost = {(item.name, item.value, item.origin) for item in deployment.overridden}
    assert ("kv-cache-dtype", "fp8_e4m3", "kernel fp8-kv-cache") in lost
    argv = deployment.processes[0].argv
    start = argv.index("--cuda-graph-bs-decode")
    assert argv[start : start + 3] == ("--cuda-graph-bs-decode", "1", "2")
    assert deployment.env["A_B"].value == "1"


def test_every_unknown_reference_is_reported_at_once(tmp_path: Path) -> None:
    text = (
        HEAD.replace("0.5.23", "0.5.99")
        + "hardware: {name: h2000, gpus: 1}\nmodel: {name: qwen3-8bb}\n"
        "optimizations: {nextn-mtpp: {}}\n"
    )
    found = problems(tmp_path, text)
    assert [line.split(" ", 1)[0].rsplit("/", 1)[1] for line in found] == [
        "p.yaml:5:12", "p.yaml:6:9", "p.yaml:4:10", "p.yaml:7:17",
    ]  # fmt: skip
    assert all(" REF001 " in line for line in found)
    assert "did you mean 'h200'" in found[0]


@pytest.mark.parametrize(
    ("option", "place", "fact"),
    [
        ("stpes: 3", "7:29", "has no option 'stpes'; did you mean 'steps'"),
        ("steps: three", "7:29", "steps is 'three'; give int"),
        ("steps: true", "7:29", "steps is True; give int"),
        ("steps: -1", "7:29", "steps is -1; the smallest is"),
    ],
)
def test_options_are_checked_against_the_kernel_entry(
    tmp_path: Path, option: str, place: str, fact: str
) -> None:
    (line,) = problems(tmp_path, f"{SMALL}optimizations: {{nextn-mtp: {{{option}}}}}\n")
    assert f"p.yaml:{place} SCH00" in line
    assert fact in line


def test_lists_of_numbers_are_checked(tmp_path: Path) -> None:
    for value in ("[]", "[1, x]", "[true]", "3"):
        text = f"{SMALL}optimizations: {{decode-cuda-graphs: {{batch_sizes: {value}}}}}\n"
        (line,) = problems(tmp_path, text)
        assert "SCH007 optimizations.decode-cuda-graphs.batch_sizes" in line


def test_a_draft_that_does_not_exist(tmp_path: Path) -> None:
    text = f"{SMALL}optimizations: {{dflash: {{draft: {{name: no-such}}}}}}\n"
    (line,) = problems(tmp_path, text)
    assert "p.yaml:7:34 REF001 no model is named 'no-such'" in line
    assert line.endswith("; one of your own: a file in profiles/models/ below --content DIR")


def test_a_release_that_does_not_exist_is_named_as_the_profile_names_it(tmp_path: Path) -> None:
    (line,) = problems(tmp_path, SMALL.replace("0.5.23", "0.5.99"))
    assert "REF001 no release '0.5.99' of SGLang is known; did you mean '0.5" in line


def test_the_flagship_expects_what_it_asks_for() -> None:
    deployment = resolve(*LIBRARY.profile("ling-3.0-flash-spark"), LIBRARY)
    asked = {e.mechanism: (e.probe, e.value, e.required) for e in deployment.expectations}
    assert asked["humming-mxfp4-moe"] == ("moe-runner", "humming", True)
    assert asked["fp8-lm-head"] == ("fp8-lm-head", None, True)
    assert asked["lm-head-shared"][0] == "lm-head-shared"
    nextn = next(e for e in deployment.expectations if e.probe == "speculative-acceptance")
    assert (nextn.floor, nextn.verify_cost_ratio) == (2.0, 2.26)
    assert deployment.arg("speculative-draft-model-path") == deployment.arg("model-path")
