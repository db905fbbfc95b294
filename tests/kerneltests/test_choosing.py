"""Which self-tests there are, and which are meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from kerneltests.programs import content, kernel, printing

from configurator.content import ROOT, Library
from configurator.errors import ConfiguratorError
from configurator.kerneltests.choosing import choose, summary
from configurator.kerneltests.model import Promise

SHIPPED = [
    "all-reduce", "decode-cuda-graphs", "engine-packages", "fp8-lm-head", "host-ceilings",
    "moe-reads",
]  # fmt: skip


def test_the_shipped_self_tests(library: Library) -> None:
    assert [each.name for each in choose(library, ())] == SHIPPED
    assert library.selftests()["fp8-lm-head"] == ROOT / "kernels" / "fp8_lm_head_selftest.py"
    for name, path in library.selftests().items():
        assert len(summary(path)) > 30, name


def test_every_self_test_that_a_kernel_names_exists(library: Library) -> None:
    naming = {n: [t.name for t in library.kernel(n).selftests] for n in library.names("kernel")}
    assert {name for names in naming.values() for name in names} <= set(SHIPPED)
    assert naming["humming-mxfp4-moe"] == ["engine-packages", "moe-reads"]


def test_the_promise_of_the_fp8_head(library: Library) -> None:
    (chosen,) = choose(library, ["fp8-lm-head"])
    assert chosen.promises == (Promise("fp8-lm-head", "speedup", 1.7),)


def test_a_kernel_stands_for_its_self_tests_and_needs_its_packages(library: Library) -> None:
    chosen = choose(library, ["humming-mxfp4-moe"])
    assert [each.name for each in chosen] == ["engine-packages", "moe-reads"]
    assert {each.packages for each in chosen} == {("humming-kernels",)}


def test_nobody_needs_a_package_of_a_kernel_that_was_not_named(library: Library) -> None:
    assert {each.packages for each in choose(library, ())} == {()}
    assert choose(library, ["engine-packages"])[0].packages == ()


def test_promises_bind_without_a_named_kernel_too(tmp_path: Path) -> None:
    library = Library([content(tmp_path, mine=printing({}))])
    kernel(tmp_path, "first", "[{name: mine, minimum: {speedup: 1.5}}]")
    kernel(tmp_path, "second", "[{name: mine, minimum: {speedup: 3}}]")
    assert [p.least for p in choose(library, ["mine"])[0].promises] == [1.5, 3]
    assert [p.least for p in choose(library, ["second"])[0].promises] == [3]


def test_a_users_self_test_is_found_and_replaces_a_built_in_one(tmp_path: Path) -> None:
    library = Library([content(tmp_path, my_own=printing({}), moe_reads=printing({}))])
    found = library.selftests()
    assert found["my-own"] == tmp_path / "kernels" / "my_own_selftest.py"
    assert found["moe-reads"] == tmp_path / "kernels" / "moe_reads_selftest.py"
    assert summary(found["my-own"]) == "Prints what it is told"


def test_listing_executes_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    folder = content(tmp_path, mine=f"open({str(mark)!r}, 'w')\n", broken="def (")
    found = Library([folder]).selftests()
    assert summary(found["mine"]) == ""
    assert summary(found["broken"]).startswith("cannot be read: ")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("names", "code", "said"),
    [
        (["fp8-lmhead"], "REF005", "did you mean 'fp8-lm-head'?"),
        (["dflash"], "REF007", "kernel 'dflash' has no self-test"),
    ],
)
def test_names_that_mean_none(library: Library, names: list[str], code: str, said: str) -> None:
    with pytest.raises(ConfiguratorError) as caught:
        choose(library, names)
    assert caught.value.problems[0].code == code
    assert said in str(caught.value)


def test_an_entry_that_names_a_missing_self_test(tmp_path: Path) -> None:
    kernel(tmp_path, "mine", "[{name: moe-read}]")
    with pytest.raises(ConfiguratorError, match="REF001 kernel 'mine' names the self-test 'moe-re"):
        choose(Library([tmp_path]), ())


def test_a_promise_of_nothing_is_refused(tmp_path: Path) -> None:
    kernel(tmp_path, "mine", "[{name: moe-reads, minimum: {speedup: 0}}]")
    with pytest.raises(ConfiguratorError, match="SCH007"):
        choose(Library([tmp_path]), ())
