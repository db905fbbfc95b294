"""Declarative deployment configurator and validator for SGLang.

Content modules (`validators/*.py`) import from here and from nowhere else. Names are resolved on
first use, so that `import configurator` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from configurator.checkpoint import Checkpoint, Tensor
    from configurator.collector.redaction import is_secret, redact_text
    from configurator.deployment import Arg, Deployment, Env, Expectation, Mechanism
    from configurator.engine.argv import ArgvError, Option, Parsed, value_error
    from configurator.engine.catalogue import (
        Catalogue,
        Flag,
        Resolution,
        catalogue_of,
        load_catalogue,
        versions_with,
    )
    from configurator.engine.releases import before, since
    from configurator.errors import did_you_mean
    from configurator.evidence.answers import (
        Acceptance,
        DraftCount,
        acceptance_of,
        answers_of,
        corruption_of,
        draft_counts,
        has_output,
    )
    from configurator.evidence.experts import has_no_experts, without_experts
    from configurator.evidence.model import (
        Exchange,
        Head,
        LogLine,
        Megakernel,
        ModelReport,
        Replica,
        Report,
    )
    from configurator.evidence.passes import decode_passes
    from configurator.evidence.report_values import as_dict, as_float, as_int, as_ints
    from configurator.evidence.serverlog import last_words
    from configurator.evidence.trace_model import Kernel, Trace, TraceStep
    from configurator.evidence.traced import TracedSteps, generating, traced_steps
    from configurator.families import Families, KernelFamily
    from configurator.launch import Launch, LaunchEnv, LaunchWord
    from configurator.plan.claims import Compared, Match, match
    from configurator.probes import (
        Check,
        Probe,
        absent_drafts,
        because,
        on_ranks,
        probe,
        speculation_off,
        why_no_report,
    )
    from configurator.ranks import ranks_in_prefix
    from configurator.rules import Finding, Fix, Rule, launch_rule, rule
    from configurator.schema.claims import Published, stated, unstated
    from configurator.verdicts import (
        Answer,
        Observation,
        Outcome,
        Rung,
        inconclusive,
        not_applicable,
        proven,
        refuted,
    )

__version__ = "0.1.0"

_HOME = {
    "Acceptance": "evidence.answers",
    "Answer": "verdicts",
    "Arg": "deployment",
    "ArgvError": "engine.argv",
    "Catalogue": "engine.catalogue",
    "Check": "probes",
    "Checkpoint": "checkpoint",
    "Compared": "plan.claims",
    "Families": "families",
    "Kernel": "evidence.trace_model",
    "KernelFamily": "families",
    "Deployment": "deployment",
    "DraftCount": "evidence.answers",
    "Env": "deployment",
    "Exchange": "evidence.model",
    "Expectation": "deployment",
    "Finding": "rules",
    "Fix": "rules",
    "Flag": "engine.catalogue",
    "Head": "evidence.model",
    "Launch": "launch",
    "LaunchEnv": "launch",
    "LaunchWord": "launch",
    "LogLine": "evidence.model",
    "Match": "plan.claims",
    "Mechanism": "deployment",
    "Megakernel": "evidence.model",
    "ModelReport": "evidence.model",
    "Observation": "verdicts",
    "Option": "engine.argv",
    "Outcome": "verdicts",
    "Parsed": "engine.argv",
    "Probe": "probes",
    "Published": "schema.claims",
    "Replica": "evidence.model",
    "Report": "evidence.model",
    "Resolution": "engine.catalogue",
    "Rule": "rules",
    "Rung": "verdicts",
    "Tensor": "checkpoint",
    "Trace": "evidence.trace_model",
    "TraceStep": "evidence.trace_model",
    "TracedSteps": "evidence.traced",
    "acceptance_of": "evidence.answers",
    "answers_of": "evidence.answers",
    "as_dict": "evidence.report_values",
    "as_float": "evidence.report_values",
    "as_int": "evidence.report_values",
    "as_ints": "evidence.report_values",
    "before": "engine.releases",
    "generating": "evidence.traced",
    "has_no_experts": "evidence.experts",
    "catalogue_of": "engine.catalogue",
    "corruption_of": "evidence.answers",
    "decode_passes": "evidence.passes",
    "did_you_mean": "errors",
    "draft_counts": "evidence.answers",
    "has_output": "evidence.answers",
    "inconclusive": "verdicts",
    "is_secret": "collector.redaction",
    "launch_rule": "rules",
    "load_catalogue": "engine.catalogue",
    "match": "plan.claims",
    "not_applicable": "verdicts",
    "absent_drafts": "probes",
    "because": "probes",
    "last_words": "evidence.serverlog",
    "on_ranks": "probes",
    "probe": "probes",
    "stated": "schema.claims",
    "unstated": "schema.claims",
    "why_no_report": "probes",
    "without_experts": "evidence.experts",
    "proven": "verdicts",
    "ranks_in_prefix": "ranks",
    "redact_text": "collector.redaction",
    "refuted": "verdicts",
    "rule": "rules",
    "since": "engine.releases",
    "speculation_off": "probes",
    "traced_steps": "evidence.traced",
    "value_error": "engine.argv",
    "versions_with": "engine.catalogue",
}

__all__ = [
    "Acceptance",
    "Answer",
    "Arg",
    "ArgvError",
    "Catalogue",
    "Check",
    "Checkpoint",
    "Compared",
    "Deployment",
    "DraftCount",
    "Env",
    "Exchange",
    "Expectation",
    "Families",
    "Finding",
    "Fix",
    "Flag",
    "Head",
    "Kernel",
    "KernelFamily",
    "Launch",
    "LaunchEnv",
    "LaunchWord",
    "LogLine",
    "Match",
    "Mechanism",
    "Megakernel",
    "ModelReport",
    "Observation",
    "Option",
    "Outcome",
    "Parsed",
    "Probe",
    "Published",
    "Replica",
    "Report",
    "Resolution",
    "Rule",
    "Rung",
    "Tensor",
    "Trace",
    "TraceStep",
    "TracedSteps",
    "absent_drafts",
    "acceptance_of",
    "answers_of",
    "as_dict",
    "as_float",
    "as_int",
    "as_ints",
    "because",
    "before",
    "catalogue_of",
    "corruption_of",
    "decode_passes",
    "did_you_mean",
    "draft_counts",
    "generating",
    "has_no_experts",
    "has_output",
    "inconclusive",
    "is_secret",
    "last_words",
    "launch_rule",
    "load_catalogue",
    "match",
    "not_applicable",
    "on_ranks",
    "probe",
    "proven",
    "ranks_in_prefix",
    "redact_text",
    "refuted",
    "rule",
    "since",
    "speculation_off",
    "stated",
    "traced_steps",
    "unstated",
    "value_error",
    "versions_with",
    "why_no_report",
    "without_experts",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'configurator' has no attribute {name!r}")
    return getattr(importlib.import_module(f"configurator.{home}"), name)
