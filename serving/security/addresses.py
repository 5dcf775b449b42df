"""How addresses are written, and which are loopback, so that data sent there crosses no network."""

import functools
import ipaddress
import urllib.parse


def host_and_port(host: str, port: int) -> str:
    """Returns `HOST:PORT`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Returns whether `host`, a name or an address without a port, is certain to be this machine."""
    host = host.removeprefix("[").removesuffix("]")
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False  # a name may resolve to anything
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_loopback_header(host: str) -> bool:
    """Returns whether the `Host` of an HTTP request, with a port or without, is certain to be this machine."""
    name, colon, port = host.rpartition(":")
    return is_loopback(name if colon and port.isdecimal() else host)


def is_loopback_target(target: str) -> bool:
    """Returns whether a target such as `HOST:PORT`, or the `ipv4:` or `ipv6:` address of a peer, is this machine."""
    target = urllib.parse.unquote(target)  # a peer's address is percent-encoded: ipv6:%5B::1%5D:8500
    for scheme in ("ipv4:", "ipv6:", "dns:"):
        target = target.removeprefix(scheme)
    host, _, port = target.rpartition(":")
    return is_loopback(host) if port.isdecimal() and host else False


@functools.lru_cache(4096)
def caller_at(peer: str) -> str:
    """Returns who calls from a peer's address: another machine, or on this one, the single connection.

    Connections of one machine share the server as one caller. On this machine, peers are programs of several callers.
    """
    return peer if is_loopback_target(peer) else peer.rpartition(":")[0] or peer
