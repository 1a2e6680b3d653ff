"""`allowed_hosts`: names, `*.` patterns, addresses and address blocks, in one form each."""

import ipaddress
import re
from collections.abc import Iterable

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def normalized(hosts: Iterable[str]) -> list[str]:
    """The entries in lower case, without final dots, addresses compressed.

    Raises:
        ValueError: an entry is something else, for example a URL.
    """
    return [_normalized(host) for host in hosts]


def _normalized(entry: str) -> str:
    host = entry.strip().lower().rstrip(".")
    if "/" in host:
        if "%" in host:
            raise ValueError(f"{entry!r} is not an address block")
        return ipaddress.ip_network(host, strict=True).compressed
    if ":" in host:
        if "%" in host:
            raise ValueError(f"{entry!r} is not an address")
        return ipaddress.IPv6Address(host).compressed
    name = host.removeprefix("*.")
    if any(_LABEL.fullmatch(label) is None for label in name.split(".")):
        raise ValueError(f"{entry!r} is not a host name, a *. pattern, an address or a block")
    if name != host and is_address(name):
        raise ValueError(f"{entry!r} is a pattern for an address")
    return host


def is_address(host: str) -> bool:
    """Whether it is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def egress_rule(host: str) -> dict[str, str]:
    """The entry of `sandbox.network.allow` for a normalized one: all its ports."""
    if "/" in host:
        return {"cidr": host}
    if is_address(host):
        return {"cidr": ipaddress.ip_network(host).compressed}
    return {"host": host}
