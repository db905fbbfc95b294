"""Names, places and variables that a profile may hold: each a text with a rule of its own."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from configurator.schema.base import EnvName, Text

Host = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9:\[][A-Za-z0-9.:%_\[\]-]*$")]
"""An address or a host name."""


def _place(path: str) -> str:
    if path.startswith("~"):
        raise ValueError("write the whole path: ~ is not expanded")
    if path.startswith("-") or not path.isprintable() or path != path.strip():
        raise ValueError("give a path, or the name of a repository")
    return path


Spelling = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*([ =]\S*)?$")]
CheckpointPath = Annotated[Text, AfterValidator(_place)]


def _key_file(path: str) -> str:
    if path.startswith("~"):
        raise ValueError("write the whole path: ~ is not expanded")
    if not path.startswith("/") or not path.isprintable() or path != path.strip():
        raise ValueError("give an absolute path: units and containers have folders of their own")
    return path


KeyFile = Annotated[Text, AfterValidator(_key_file)]


def _image(reference: str) -> str:
    if not re.fullmatch(r"[a-z0-9][A-Za-z0-9._/:@-]*", reference):
        raise ValueError("give an image as registry/name:tag or registry/name@sha256:DIGEST")
    return reference


def _host_path(path: str) -> str:
    if not path.startswith("/") or not path.isprintable() or path != path.strip():
        raise ValueError("give an absolute path")
    if ":" in path or ".." in path.split("/"):
        raise ValueError("give a path without a colon and without '..', which no cluster mounts")
    return path


Image = Annotated[Text, AfterValidator(_image)]
HostPath = Annotated[Text, AfterValidator(_host_path)]


_OF_SHELLS = re.compile(
    r"BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|POSIXLY_CORRECT|CDPATH|GLOBIGNORE|BASH_XTRACEFD"
    r"|BASH_FUNC_.*|CREDENTIALS_DIRECTORY|CONFIGURATOR_(?!PROBE_).*",
    re.IGNORECASE,
)
_OF_SCRIPTS = re.compile(
    r"HERE|LOG|LOG_DIR|URL|TIMEOUT_S|REPORTS|REPORTS_DIR|ENGINE_PID|ENGINE_ENV"
    r"|KNOWN_CHECKS|PASSED|NODES|STEPS|MAINPID|CONFIGURATOR_.*|STATE(_DIR)?|NAME|IMAGE|CONTAINER(_ID)?|RUN_DIR|LEFT|LET"
    r"|MEMINFO|PAUSE|REST|SAID|SEEN|SETTING|WRONG|RESERVE_KIB|ROUTED|PYTHONPATH|SGLANG_PLUGINS|(OWN_)?MODE|CHILD|REPLICA\d+_HOST\d+_ADDR"
    r"|GROUPS|DIRSTACK|FUNCNAME|LINENO|SRANDOM|EPOCH.*|OPT(ARG|IND|ERR)|REPLY|SHLVL|OLDPWD|MAPFILE"
    r"|LC_ALL|JOB_.*|SLURM_.*|PATH|HOME|PWD|IFS|UID|EUID|PPID|SECONDS|RANDOM|BASH.*|[a-z].*"
)


def _engine_variable(name: str) -> str:
    if _OF_SHELLS.fullmatch(name):
        raise ValueError(
            "give another variable: this one would steer the shell that starts the engine"
        )
    return name


def _key_variable(name: str) -> str:
    if _OF_SHELLS.fullmatch(name) or _OF_SCRIPTS.fullmatch(name):
        raise ValueError(
            "give another variable, in capitals: rendered scripts have one of this name"
        )
    return name


EngineVariable = Annotated[EnvName, AfterValidator(_engine_variable)]
"""A variable of the engine, which also the shell before it sees."""
KeyVariable = Annotated[EnvName, AfterValidator(_key_variable)]
"""A variable of the launching environment, beside those of the scripts."""
