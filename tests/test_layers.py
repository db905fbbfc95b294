"""Merging layers, and where each value came from."""

from __future__ import annotations

from configurator.layers import merge, overlay
from configurator.source import parse_source


def test_maps_merge_lists_replace_null_removes() -> None:
    base = {"a": {"x": 1, "y": 2}, "b": [1, 2], "c": 3}
    patch = {"a": {"y": None, "z": 4}, "b": [9], "c": None}
    assert overlay(base, patch) == {"a": {"x": 1, "z": 4}, "b": [9]}
    assert base == {"a": {"x": 1, "y": 2}, "b": [1, 2], "c": 3}


def test_a_map_replaces_a_scalar_and_the_other_way() -> None:
    assert overlay({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}
    assert overlay({"a": {"b": 2}}, {"a": 1}) == {"a": 1}


def test_nulls_inside_a_new_map_are_dropped_too() -> None:
    assert overlay({}, {"a": {"b": None, "c": 1}}) == {"a": {"c": 1}}


def test_origins_name_the_layer_whose_value_survived() -> None:
    child = parse_source("a: {y: 5}\n", "child.yaml")
    base = parse_source("a:\n  x: 1\n  y: 2\nb: 3\n", "base.yaml")
    layers = merge((child, base))
    assert layers.data == {"a": {"x": 1, "y": 5}, "b": 3}
    assert str(layers.locate(("a", "y"))) == "child.yaml:1:5"
    assert str(layers.locate(("a", "x"))) == "base.yaml:2:3"
    assert str(layers.locate(("b",))) == "base.yaml:4:1"


def test_a_missing_value_is_placed_where_it_would_belong() -> None:
    child = parse_source("c: 1\n", "child.yaml")
    base = parse_source("a:\n  x: 1\n", "base.yaml")
    layers = merge((child, base))
    assert str(layers.locate(("a", "missing"))) == "base.yaml:1:1"
    assert str(layers.locate(("nowhere",))) == "child.yaml:1:1"


def test_only_the_most_derived_layer_reports_idle_nulls() -> None:
    child = parse_source("a: {gone: null, misspelt: null}\n", "child.yaml")
    base = parse_source("a: {gone: 1}\nb: null\n", "base.yaml")
    assert merge((child, base)).idle_nulls == (("a", "misspelt"),)
