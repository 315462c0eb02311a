"""The page of a sandbox: its watch, its API and its server, from start to stop."""

from __future__ import annotations

from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.pace import Runner
from fairway.web.access import LoopbackAccess
from fairway.web.application import application
from fairway.web.server import HOST, PageServer
from fairway.web.shown import ShownCluster
from fairway.web.sources import sandbox_watch


class SandboxPage:
    """See the module. InputError where the port is taken."""

    def __init__(self, sandbox: Sandbox, port: int, token: str) -> None:
        self.watch = sandbox_watch(sandbox)
        self.shown = ShownCluster("sandbox", "Sandbox", self.watch, sandbox=sandbox)
        self.token = token
        self._access = LoopbackAccess(token)
        self._site = application(self.shown, self._access, self._hosts)
        self.server = PageServer(self._site.app, port)
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
        """For a browser: it opens the page once, and a cookie does from then on."""
        return f"{self.server.url}/?token={self.token}"

    def paced_by(self, runner: Runner) -> None:
        self.shown.pace = runner

    def start(self) -> None:
        self.watch.start()
        self.server.start()

    def stop(self) -> None:
        self.server.stop(self._site.hub.stop)
        self.watch.stop()
