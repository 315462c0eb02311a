"""A page on the loopback address: its watch, its API and its server, from start to stop."""

from __future__ import annotations

from fairway.web.access import LoopbackAccess
from fairway.web.application import application
from fairway.web.server import HOST, PageServer
from fairway.web.shown import ShownCluster


class LoopbackPage:
    """See the module. InputError where the port is taken."""

    def __init__(self, shown: ShownCluster, port: int, token: str) -> None:
        self.shown = shown
        self.watch = shown.watch
        self.token = token
        self._access = LoopbackAccess(token)
        self._site = application(shown, self._access, self._hosts)
        self.server = PageServer(self._site.app, port, shown.log)
        self._access.port = self.server.port

    def _hosts(self) -> frozenset[str]:
        port = self.server.port
        return frozenset({f"{HOST}:{port}", f"localhost:{port}", HOST, "localhost"})

    @property
    def url(self) -> str:
        """For commands, which send the token apart."""
        return self.server.url

    @property
    def address(self) -> str:
        """For a browser: it opens the page once, and a cookie does from then on. What follows the `#` is sent to no
        server, so the token is in no log.
        """
        return f"{self.server.url}/#token={self.token}"

    def start(self) -> None:
        self.watch.start()
        self.server.start()

    def stop(self) -> None:
        self.server.stop(self._site.hub.stop)
        self.watch.stop()
        if self.shown.history is not None:
            self.shown.history.close()
