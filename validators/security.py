"""Keys and open ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from configurator import Deployment, Finding, rule

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
    for name in deployment.profile.extra.args:
        key = _KEYS.get(name.lstrip("-").replace("_", "-"))
        if key:
            yield Finding(
                ("extra", "args", name),
                f"a secret stands in clear in extra.args ({name})",
                f"write 'serving: {{{key}: {{file: /path/to/key}}}}', or {{env: NAME}}",
            )
    for name in deployment.profile.extra.env:
        if name.upper().endswith(("_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD")):
            yield Finding(
                ("extra", "env", name),
                f"a secret stands in clear in extra.env ({name})",
                "set it in the launching environment instead",
            )


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
