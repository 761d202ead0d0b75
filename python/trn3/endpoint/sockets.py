"""Where an endpoint listens, and how many may come."""

from __future__ import annotations

import socket
from typing import Final

from trn3.endpoint.options import EndpointOptions

#: Files that are open for other reasons.
_OTHER_FILES: Final = 64


def listen(options: EndpointOptions) -> socket.socket:
    """Return a socket that is bound to the options' address, and to no other.

    Raises
    ------
    OSError
        If the address is taken, or is none of this machine's; the text names it.
    """
    try:
        found = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no name of a host"
        raise OSError(None, reason, f"{options.host}:{options.port}") from error
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        # A port can be taken again at once though connections of before are not quite over.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Connections inherit it: who reads nothing for so long is gone.
            stall = round(options.stall_seconds * 1000)
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, stall)
        listening.bind(address)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, error.strerror, f"{options.host}:{options.port}") from error
    return listening


def allowed_connections(wanted: int) -> int:
    """Return how many connections there may be, after the limit of open files is raised to that.

    >>> allowed_connections(8)
    8
    """
    try:
        import resource
    except ImportError:  # no limit of this kind on this system
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        soft = needed
    return wanted if soft == resource.RLIM_INFINITY else max(min(wanted, soft - _OTHER_FILES), 1)
