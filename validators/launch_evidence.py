"""Variables under which figures and health checks no longer say what they seem to say."""

from __future__ import annotations

from collections.abc import Iterator

from configurator import Finding, Launch, LaunchEnv, launch_rule

_FALSE = ("", "0", "0.0", "false", "no", "n")
# What each does to the figures, or to the requests themselves.
_MISLEADING = {
    "SGLANG_RADIX_FORCE_MISS": "no prompt is found in the prefix cache: throughput and first token "
    "are those of an engine without one",
    "SGLANG_DIAG_BYPASS_HEALTH_GENERATE": "the health check answers 200 without a generation, even "
    "when the engine hangs",
    "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "the health check answers without a generation, "
    "even when the scheduler hangs",
    "SGLANG_DEBUG_HISPARSE_SKIP_IO": "the sparse cache is not read: times are too short, and "
    "answers are not the model's",
}
_SWITCHED_OFF = ("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION",)
_TESTS = ("SGLANG_TEST_STUCK_", "SGLANG_TEST_CRASH_", "SGLANG_TEST_RETRACT", "SGLANG_TEST_DISAGG_",
          "SGLANG_TEST_FORCE_", "SGLANG_TEST_HICACHE_", "SGLANG_TEST_MAMBA_")  # fmt: skip


def _on(given: LaunchEnv) -> bool:
    """It is set to something true; a value known only where it runs may be."""
    return given.value is None or given.value.lower() not in _FALSE


@launch_rule(
    "ENG305",
    "figures-without-their-meaning",
    severity="warning",
    source="sglang 0.5.12 to 0.5.23: environ.py, http_server.py",
)
def figures_without_their_meaning(launch: Launch) -> Iterator[Finding]:
    """A variable for benchmarks and diagnosis: the server works, and what it reports is not what
    a reader takes it for. SPEC115 speaks of those that fake acceptance.

    Bad:
        SGLANG_RADIX_FORCE_MISS=1 sglang serve --model-path m

    Good:
        SGLANG_RADIX_FORCE_MISS=0 sglang serve --model-path m
    """
    for name, effect in _MISLEADING.items():
        given = launch.env.get(name)
        if given is not None and _on(given) != (name in _SWITCHED_OFF):
            yield Finding(
                given.path,
                f"{name} is {given.value or 'set'}: {effect}",
                "remove it where people or gauges rely on the answers",
            )


@launch_rule(
    "ENG306",
    "faults-injected-for-tests",
    source="sglang 0.5.5 to 0.5.23: environ.py, the variables of its own tests",
)
def faults_injected_for_tests(launch: Launch) -> Iterator[Finding]:
    """A variable of the engine's own tests makes it hang, crash, retract or fail on purpose.

    Bad:
        SGLANG_TEST_RETRACT=1 sglang serve --model-path m

    Good:
        sglang serve --model-path m
    """
    for name, given in launch.env.items():
        if name.startswith(_TESTS) and _on(given):
            yield Finding(
                given.path,
                f"{name} injects faults into requests or into the engine",
                "remove it: it is for the engine's own tests",
            )
