"""The house: imports go down and never back, and the core stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from configurator.content import ROOT

PACKAGE = ROOT / "configurator"

FLOORS = [
    {"errors", "verdicts", "words", "__init__", "collector", "collector.nesting"},
    {"collector.redaction", "collector.logline", "collector.listeners"},
    {"collector.client", "collector.inputs", "collector.writing", "collector.plan"},
    {"collector.replica", "collector.host"},
    {"collector.logfile", "collector.process", "collector.reports", "collector.manifest"},
    {"collector.readiness"},
    {"collector.sending"},
    {"collector.collecting"},
    {"collector.command"},
    {"source", "evidence.model", "readers.reading", "engine.records", "collector.__main__"},
    {"layers", "schema.base", "schema.named", "schema.shapes", "schema.profile", "schema.content"},
    {"schema", "readers.shell", "schema.measurement"},
    {"schema.claims", "plan.figures"},
    {"engine.store", "readers.processes", "readers.docker", "readers.compose", "readers.systemd"},
    {"engine.catalogue", "checkpoint", "readers.kubernetes", "readers.files"},
    {"deployment", "content", "engine.argv", "engine.releases"},
    {"assemble", "plan.claims", "plan.consistency"},
    {"launch"},
    {"plan.model", "plan.shape", "plan.sharing", "plan.weights", "plan.caches"},
    {"plan.config_shape", "plan.headers", "plan.settings", "plan.geometry"},
    {"plan.step_passes", "plan.efficiency", "plan.store_path"},
    {"plan.step_reads"},
    {"plan.step_time"},
    {"plan.step_round"},
    {"secrets"},
    {"rules", "probes", "resolve", "recognize"},
    {"plan.measured", "plan.step_changes", "plan.step_remarks"},
    {"plan.step"},
    {"plan.observed", "plan.predictions"},
    {"plan.prediction_store", "plan.prediction_errors", "plan.opinion", "plan.planning"},
    {"plan.diff"},
    {"plan.running"},
    {"loader"},
    {"suppress"},
    {"validate", "judge", "pages", "json_schema"},
    {"linted"},
    {"fixes"},
    {"lint", "import_sorting"},
    {"importing"},
    {"oracle.client", "oracle.findings", "oracle.asking"},
    {"report", "report.findings"},
    {"report.predictions"},
    {"report.terminal", "report.json_report", "report.launches", "report.sarif", "report.junit"},
    {"report.claims", "report.claims_json", "report.plan_values", "report.html_text"},
    {"report.plan_rows", "report.plan_sheet", "report.svg", "report.html_template"},
    {"report.plan_blocks_step", "report.plan_blocks_claims"},
    {"report.plan_blocks", "report.plan_svg_step"},
    {"report.plan_text", "report.plan_json", "report.plan_svg", "report.plan_png"},
    {"report.plan_html", "report.plan_text_diff"},
    {"report.formats", "report.html", "inengine.bundle"},
    {"up.session", "up.preflight", "up.launching"},
    {"kerneltests.model"},
    {"kerneltests.choosing", "kerneltests.running", "kerneltests.store"},
    {"report.kernels"},
    {"commands"},
    {"cli"},
    {"docs", "__main__"},
]
"""Floors from the ground up; a module may import from its own floor and from below."""

FLOORS_OF_THE_PROBE = [
    {"run", "values"},
    {"tensors", "hooks", "origin", "environment", "gathering"},
    {"heads", "graphs", "writing"},
    {"sharing", "layers"},
    {"models"},
    {"drafts"},
    {"building"},
    {"hooked"},
    {"registering"},
    {"__init__"},
]
"""The same within the probe, which stands alone: all of its modules."""


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imported(node: ast.ImportFrom, path: Path) -> str:
    """The whole name of the module after `from`, in a file at `path`."""
    if not node.level:
        return node.module or ""
    package = ("configurator", *path.relative_to(PACKAGE).parent.parts)
    return ".".join([*package[: len(package) + 1 - node.level], *filter(None, [node.module])])


def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and imported(node, path).startswith("configurator"):
            base = imported(node, path).removeprefix("configurator").lstrip(".")
            for alias in node.names:
                joined = f"{base}.{alias.name}".lstrip(".")
                is_module = (PACKAGE / joined.replace(".", "/")).with_suffix(".py").is_file()
                found.add(joined if is_module else base or "__init__")
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.removeprefix("configurator.")
                for alias in node.names
                if alias.name.startswith("configurator.")
            }
    return found


def graph() -> dict[str, set[str]]:
    return {
        module_name(path): imports(path)
        for path in PACKAGE.rglob("*.py")
        if "recordings" not in path.parts
    }


def test_no_import_circles() -> None:
    edges = graph()
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join([*trail, module])
        if module in done:
            return
        for target in edges.get(module, set()):
            # The package's own module resolves names on first use, for content modules alone.
            if target != "__init__":
                visit(target, (*trail, module))
        done.add(module)

    for module in edges:
        if module != "__init__":
            visit(module, ())


def test_imports_go_down() -> None:
    height = {module: floor for floor, modules in enumerate(FLOORS) for module in modules}
    for module, targets in graph().items():
        for target in targets:
            if module in height and target in height and module != "__init__":
                assert height[target] <= height[module], f"{module} imports {target}"


def test_imports_of_the_probe_go_down() -> None:
    package = PACKAGE / "inengine" / "configurator_probe"
    height = {name: floor for floor, names in enumerate(FLOORS_OF_THE_PROBE) for name in names}
    assert set(height) == {path.stem for path in package.glob("*.py")}
    for path in package.glob("*.py"):
        for target in imports(path):
            assert height[target.rpartition(".")[2]] <= height[path.stem], f"{path} and {target}"


def test_modules_that_run_in_the_engines_container_import_only_the_standard_library() -> None:
    known = {
        PACKAGE / "collector": {"redaction", "command", "__main__", "__init__"},
        PACKAGE / "inengine" / "configurator_probe": {"hooks", "building", "__init__"},
    }
    for package, some in known.items():
        paths = set(package.glob("*.py"))
        assert set(package.rglob("*.py")) == paths
        assert some < {path.stem for path in paths}
        import_only_the_standard_library(paths)


def import_only_the_standard_library(paths: set[Path]) -> None:
    modules = {path.stem for path in paths}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
                if node.level:
                    # The package stands alone there, and nothing of ours around it.
                    assert node.level == 1, f"{path.name} imports from outside the package"
                    assert node.module in modules, f"{path.name} imports .{node.module}"
                    continue
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names, f"{path.name}: {name}"


def test_content_modules_import_only_the_public_package() -> None:
    for path in (ROOT / "validators").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("configurator"):
                assert node.module == "configurator", f"{path.name} imports {node.module}"


def test_self_tests_of_kernels_need_nothing_of_ours() -> None:
    paths = set((ROOT / "kernels").glob("*.py"))
    assert "selftest_kit" in {path.stem for path in paths}
    allowed = {*sys.stdlib_module_names, "torch", "triton", "sglang", "selftest_kit"}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, path.name
                names = [node.module or ""]
            assert {name.split(".")[0] for name in names} <= allowed, path.name


def test_the_core_needs_neither_torch_nor_the_engine() -> None:
    for module, path in ((module_name(p), p) for p in PACKAGE.rglob("*.py")):
        if module.startswith("selftest.rig."):
            continue  # Data: files for the engine's own Python.
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not [n for n in names if n.split(".")[0] in ("torch", "sglang")], module


def test_nothing_imports_what_is_for_the_engines_python() -> None:
    edges = graph()
    assert any(module.startswith("selftest.rig.") for module in edges)
    for module, targets in edges.items():
        if not module.startswith("selftest.rig."):
            assert not [name for name in targets if name.startswith("selftest.rig")], module


def test_version_does_not_import_the_schema() -> None:
    code = (
        "import sys; from configurator.cli import run; run(['--version']); "
        "print([m for m in ('pydantic', 'yaml', 'jinja2') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_modules_stay_readable() -> None:
    content = (
        path for folder in ("validators", "kernels") for path in (ROOT / folder).glob("*.py")
    )
    for path in [*PACKAGE.rglob("*.py"), *content]:
        text = path.read_text()
        assert text.count("\n") <= 450, f"{path} has {text.count(chr(10))} lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                doc = ast.get_docstring(node, clean=False) or ""
                body = length - doc.count("\n") - 1
                assert body <= 75, f"{path}:{node.lineno} {node.name} has {body} lines"
