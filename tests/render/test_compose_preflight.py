"""The one-shot service that looks before an engine starts, under real bash."""

from __future__ import annotations

import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from stand_in import LIBRARY, environment

from configurator.render import TARGETS, write
from configurator.resolve import resolve


def preflight(tmp_path: Path, extra: str, **more: str) -> tuple[int, str]:
    profile = tmp_path / "p.yaml"
    profile.write_text(
        "apiVersion: configurator/v1\nkind: Deployment\nname: stub\nengine: {version: 0.5.23}\n"
        f"hardware: {{name: cpu, gpus: 1}}\nmodel: {{name: qwen3-8b}}\n{extra}"
    )
    out = tmp_path / "out"
    write(TARGETS["compose"](resolve(*LIBRARY.profile(str(profile)), LIBRARY)), out)
    script = out / "preflight.sh"
    script.write_text(script.read_text().replace("/var/configurator", str(tmp_path / "var")))
    env = environment(tmp_path, CONFIGURATOR_PROBE_DIR=str(tmp_path / "var" / "reports"), **more)
    done = subprocess.run(
        ["bash", str(script)], env=env, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_it_looks_at_the_engine_in_its_own_image(tmp_path: Path, free_port: int) -> None:
    memory = "memory: {min_available_gib: 1}\n"
    code, printed = preflight(tmp_path, f"serving: {{port: {free_port}}}\n{memory}")
    assert code == 0, printed
    for check in ("profile", "engine", "plugins", "memory", "port"):
        assert f"preflight {check}: " in printed


def test_too_little_memory_keeps_the_engines_from_starting(tmp_path: Path, free_port: int) -> None:
    text = f"serving: {{port: {free_port}}}\nmemory: {{min_available_gib: 1000000}}\n"
    code, printed = preflight(tmp_path, text)
    assert code == 1
    assert "the profile needs 1000000: stop other users of it" in printed
    assert preflight(tmp_path, text, CONFIGURATOR_SKIP="memory")[0] == 0


def test_what_a_running_deployment_holds_is_not_in_its_own_way(
    tmp_path: Path, free_port: int
) -> None:
    text = f"serving: {{port: {free_port}}}\nmemory: {{min_available_gib: 1000000}}\n"
    server = HTTPServer(("127.0.0.1", free_port), BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        code, printed = preflight(tmp_path, text, CONFIGURATOR_SKIP="memory")
        assert code == 1
        assert f"port {free_port} is taken" in printed
        state = tmp_path / "var" / "state" / "replica-0"
        state.mkdir(parents=True)
        (state / "start").write_text("a\n")
        code, printed = preflight(tmp_path, text)
        assert code == 0, printed
        assert f"an engine runs already on port {free_port}" in printed
    finally:
        server.shutdown()
        server.server_close()


def test_an_empty_key_is_found_before_anything_else(tmp_path: Path, free_port: int) -> None:
    text = f"serving: {{port: {free_port}, api_key: {{env: THE_KEY}}}}\n"
    code, printed = preflight(tmp_path, text)
    assert code == 1
    assert "variable THE_KEY is empty" in printed
    assert "preflight engine" not in printed
    code, printed = preflight(tmp_path, text, THE_KEY="top-secret")
    assert code == 0, printed
    assert "preflight keys: they are there" in printed
    assert "top-secret" not in printed
