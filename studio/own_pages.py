"""Who may talk to the studio: its own page, under a name of this machine, and nobody else.

A page of another site can make a browser send requests here (Origin tells), or can have its own
name resolve to this machine (Host tells).
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
EVERYWHERE = frozenset({"0.0.0.0", "::"})


class OnlyOwnPages:
    """Answers 400 to a Host that is not ours, and 403 to an Origin that is not the page's own."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self.app = app
        self.names = LOCAL | {host.lower()}
        if host in EVERYWHERE:
            self.names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        self.any_address = host in EVERYWHERE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_ours(host):
            refusal = PlainTextResponse("This is not a name of the studio.", status_code=400)
        elif origin is not None and origin.partition("://")[2] != host:
            refusal = PlainTextResponse("This page may not use the studio.", status_code=403)
        else:
            await self.app(scope, receive, send)
            return
        await refusal(scope, receive, send)

    def _is_ours(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if name in self.names:
            return True
        return self.any_address and _is_address(name)


def _is_address(name: str) -> bool:
    """An address cannot be made to resolve elsewhere, as a name can."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
