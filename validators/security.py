"""Keys and open ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from functools import lru_cache

from configurator import Deployment, Finding, Launch, is_secret, launch_rule, redact_text, rule

_KEYS = {"api-key": "api_key", "admin-api-key": "admin_api_key"}


def _is_open(host: str) -> bool:
    """Others than this host can connect."""
    try:
        return not ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host != "localhost"


@rule("SEC101", "secret-written-in-the-profile", source="sglang 0.5.23: /server_info shows keys")
def secret_written_in_the_profile(deployment: Deployment) -> Iterator[Finding]:
    """A key in clear lands in version control, in the rendered scripts and in the process list.

    Bad:
        extends: ling-3.0-flash-spark
        extra: {args: {api-key: sk-example}}

    Good:
        extends: ling-3.0-flash-spark
        serving: {api_key: {file: /etc/ling/key, env: null}}
    """
    for name, value in deployment.profile.extra.args.items():
        bare = name.lstrip("-").replace("_", "-")
        key = _KEYS.get(bare) or next(
            # The engine's parser takes an abbreviation for the whole name.
            (field for flag, field in _KEYS.items() if flag.startswith(bare) and len(bare) > 3),
            None,
        )
        if key:
            remedy = f"write 'serving: {{{key}: {{file: /path/to/key}}}}', or {{env: NAME}}"
            yield _in_clear("args", name, remedy)
        elif _looks_secret(bare, value):
            yield _in_clear("args", name, "keep it out of the profile: a command is seen by all")
    for name, value in deployment.profile.extra.env.items():
        if _looks_secret(name, value):
            there = f"extra: {{secrets: {{{redact_text(name)}: {{env: NAME}}}}}}"
            yield _in_clear("env", name, f"write '{there}', or {{file: PATH}}")


def _looks_secret(name: str, value: object) -> bool:
    """By its name, or by its shape: a token, or a user and password in a URL."""
    words = value if isinstance(value, list) else [value]
    return any(_is_one(name, word) for word in words if isinstance(word, str))


# Profiles of one fleet repeat the same arguments, and the patterns are slow.
@lru_cache(maxsize=1024)
def _is_one(name: str, word: str) -> bool:
    return is_secret(name, word) or redact_text(word) != word


def _in_clear(section: str, name: str, remedy: str) -> Finding:
    fact = f"a secret stands in clear in extra.{section} ({redact_text(name)})"
    return Finding(("extra", section, name), fact, remedy)


@rule(
    "SEC102", "open-port-without-a-key", severity="warning", source="sglang 0.5.23: utils/auth.py"
)
def open_port_without_a_key(deployment: Deployment) -> Iterator[Finding]:
    """The server or the router listens beyond this host, and nobody must send a key.

    Bad:
        extends: ling-3.0-flash-spark
        serving: {host: 0.0.0.0, api_key: null}

    Good:
        extends: ling-3.0-flash-spark
        serving: {host: 127.0.0.1, api_key: null}
    """
    if deployment.arg("api-key"):
        return
    serving, router = deployment.profile.serving, deployment.profile.router
    listening = [(("serving", "host"), "the server", serving.host)]
    if router:
        # Behind a router on this host the replicas of other hosts must listen openly.
        listening = [(("router", "host"), "the router", router.host)]
    for path, who, host in listening:
        if _is_open(host):
            yield Finding(
                path,
                f"{who} listens on {host} without a key",
                "set serving.api_key: {file: ...}, or listen on 127.0.0.1",
            )


@rule("SEC103", "admin-key-handed-out", source="sglang 0.5.23: utils/auth.py, http_server.py")
def admin_key_handed_out(deployment: Deployment) -> Iterator[Finding]:
    """With only an admin key the ordinary endpoints are open, and /server_info among them shows
    the admin key in clear.

    Bad:
        extends: ling-3.0-flash-spark
        serving: {api_key: null, admin_api_key: {file: /etc/ling/admin}}

    Good:
        extends: ling-3.0-flash-spark
        serving: {api_key: {file: /etc/ling/key, env: null}, admin_api_key: {file: /etc/ling/admin}}
    """
    if deployment.arg("admin-api-key") and not deployment.arg("api-key"):
        yield Finding(
            ("serving", "admin_api_key"),
            "an admin key without an API key: /server_info is open and shows the admin key",
            "set serving.api_key too",
        )


@launch_rule(
    "SEC104",
    "key-on-the-command-line",
    severity="warning",
    source="proc(5): /proc/PID/cmdline; sglang 0.5.23: /server_info shows keys",
)
def key_on_the_command_line(launch: Launch) -> Iterator[Finding]:
    """A key that a script or manifest holds in clear: it lands in version control, and everybody
    on the host sees it in the process list.

    Bad:
        sglang serve --model-path m --api-key sk-example

    Good:
        sglang serve --model-path m --api-key ${API_KEY}
    """
    for flag in _KEYS:
        option = launch.option(flag)
        # What a profile holds in clear is SEC101's.
        if option and launch.text(flag) and launch.path(option)[0] == "argv":
            yield Finding(
                launch.path(option),
                f"{launch.said(option)} is written in clear",
                f"take it from a variable, {flag.replace('-', '_').upper()}, that is set outside",
            )
