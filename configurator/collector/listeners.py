"""Who answers at an address of this machine, as far as /proc tells."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import urllib.parse
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_LISTEN = "0A"
_LOOKS = 3
"""A process that is seen between two steps of a start or an end is looked at again."""


@dataclass(frozen=True)
class Told:
    """Whether certain processes alone answer at an address."""

    theirs: bool | None
    """None: it cannot be told."""
    why: str = ""
    """Who else answers, or why it cannot be told."""


def told(host: str, port: int, pids: Collection[int]) -> Told:
    """Whether every socket that may answer at `host` and `port` is held by one of `pids`."""
    for _ in range(_LOOKS):
        wanted = sockets_at(host, port)
        opened = {pid: open_files(pid) for pid in pids}
        left = wanted.difference(*(files for files in opened.values() if files is not None))
        if wanted and not left:
            return Told(True)
    if not wanted:
        return Told(None, f"{PROC}/net shows nobody who listens on port {port}")
    # Who has ended meanwhile hides nothing.
    left_over = [pid for pid in opened if not has_exited(pid)]
    hidden = [pid for pid in left_over if opened[pid] is None or not same_network(pid)]
    if hidden or not left_over:
        which = f"process {hidden[0]}" if hidden else "a process that has ended"
        return Told(None, f"the open sockets of {which} cannot be seen from here")
    who = next(holders(left), None)
    name = "a process of another user" if who is None else _named(who)
    return Told(False, f"{name} listens on port {port}")


def sockets_at(host: str, port: int) -> set[str]:
    """Sockets that may answer at an address, as `/proc/PID/fd` names them.

    One that listens on the very address goes before one that listens on all of its family, and
    that before one on `::`, which may take both.
    """
    rows = list(_listening(port))
    found: set[str] = set()
    for address in _addresses(host):
        every = ("::",) if address.version == 6 else ("0.0.0.0", "::")
        for choice in (str(address), *every):
            here = {name for where, name in rows if str(where) == choice}
            found |= here
            if here:
                break
    return found


def sockets_on(port: int) -> set[str]:
    """Every socket that listens on a port, at any address."""
    return {name for _, name in _listening(port)}


def open_files(pid: int) -> set[str] | None:
    """What a process has open; None when it is gone or nobody may know."""
    folder = PROC / str(pid) / "fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    found = set()
    for name in names:
        try:
            found.add(os.readlink(folder / name))
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return found


def holders(sockets: Collection[str]) -> Iterator[int]:
    """The processes that hold one of the sockets; other users' are not seen."""
    for pid in pids() if sockets else ():
        if not (open_files(pid) or set()).isdisjoint(sockets):
            yield pid


def server_of(url: str, pid: int) -> tuple[int | None, str]:
    """The process that listens at a URL, where it is `pid`, or came of it, or it of that.

    Returns:
        `pid` itself, or where it only started the server, as a shell does, that server; None with
        the reason where neither listens or it cannot be told.
    """
    parts = urllib.parse.urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if not any(map(_is_ours, _addresses(host))):
        return None, f"{host} is not this machine"
    parents = dict(filter(None, map(_parent_of, pids())))
    kin = [pid, *_above(pid, parents), *_below(pid, parents)]
    opened = {each: open_files(each) or set() for each in kin}
    wanted = sockets_at(host, port)
    if not wanted:
        return None, f"{PROC}/net shows nobody who listens on port {port}"
    if strange := wanted.difference(*opened.values()):
        who = next(holders(strange), None)
        name = "a process that cannot be looked into" if who is None else _named(who)
        return None, f"{name} listens on port {port}"
    first = next(each for each in kin if opened[each] & wanted)
    return (first if first in _below(pid, parents) else pid), ""


def _parent_of(pid: int) -> tuple[int, int] | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return pid, int(text.rpartition(")")[2].split()[1])


def _above(pid: int, parents: dict[int, int]) -> list[int]:
    """Those that a process came of, the nearest first."""
    found: list[int] = []
    while (pid := parents.get(pid, 0)) and pid not in found:
        found.append(pid)
    return found


def _below(pid: int, parents: dict[int, int]) -> list[int]:
    """Those that came of a process, the nearest first."""
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each and child != each]
    return found[1:]


def pids() -> list[int]:
    """Every process that can be seen."""
    return sorted(int(name) for name in os.listdir(PROC) if name.isdigit())


def has_exited(pid: int) -> bool:
    """Whether the process is gone, or only waits to be forgotten."""
    try:
        state = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "XZ"


def name_of(pid: int) -> str:
    """The short name of a process; `?` when it is gone."""
    try:
        return (PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "?"


def _named(pid: int) -> str:
    return f"process {pid} ({name_of(pid)})"


def same_network(pid: int) -> bool:
    """A process sees the ports that we see; False also where that is not known."""
    try:
        ours, theirs = (os.readlink(PROC / who / "ns/net") for who in ("self", str(pid)))
    except OSError:
        return False
    return ours == theirs


def _listening(port: int) -> Iterator[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, str]]:
    """Addresses and names of the sockets in state LISTEN on a port."""
    for table in ("net/tcp", "net/tcp6"):
        try:
            lines = (PROC / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            parts = line.split()
            where, _, number = parts[1].rpartition(":")
            if parts[3] == _LISTEN and int(number, 16) == port:
                yield _address(where), f"socket:[{parts[9]}]"


def _address(words: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address as the kernel prints it: words of 32 bits in the order of this machine."""
    parts = [int(words[at : at + 8], 16) for at in range(0, len(words), 8)]
    found = ipaddress.ip_address(b"".join(part.to_bytes(4, sys.byteorder) for part in parts))
    return _plain(found)


def _addresses(host: str) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """What a host is called by numbers; nothing when nobody knows it."""
    try:
        known = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return set()
    return {_plain(ipaddress.ip_address(str(entry[4][0]).partition("%")[0])) for entry in known}


def _is_ours(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """An address that this machine has: only such a one can be bound."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _plain(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
