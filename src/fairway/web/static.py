"""The built page: files below `page/`, made by `npm run build` in `frontend/` and part of installed packages."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from starlette.responses import FileResponse, HTMLResponse, Response

FOLDER = Path(__file__).parent / "page"
MISSING = (
    "The page is not built yet; the terminal and the API under /api/v1 work. After `make sandbox` it is being built: "
    "reload in a minute. To build it: make page (with Node, or with Node from PyPI)."
)
FOREVER = "public, max-age=31536000, immutable"


class PageFiles:
    """Answers with files, and with the page itself for all addresses that the page has views at."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder.resolve()

    def answer(self, path: str) -> Response:
        """A file; else the page, which reads its view from the address."""
        if path.startswith("assets/") or "." in path.rpartition("/")[2]:
            found = self._find(path)
            if found is None:
                return self.plain("There is no such file.", 404)
            kind = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
            # Names of assets have a digest of what is in them.
            cache = FOREVER if path.startswith("assets/") else "no-cache"
            return FileResponse(found, media_type=kind, headers={"Cache-Control": cache})
        index = self._folder / "index.html"
        if not index.is_file():
            return self.plain(MISSING, 200)
        return FileResponse(index, media_type="text/html", headers={"Cache-Control": "no-cache"})

    def _find(self, path: str) -> Path | None:
        """A file of the page. What no file can be called is not there."""
        try:
            found = (self._folder / path).resolve()
            return found if found.is_relative_to(self._folder) and found.is_file() else None
        except (OSError, ValueError):
            return None

    def plain(self, text: str, status: int) -> Response:
        body = f"<!doctype html><html lang=en><meta charset=utf-8><title>Fairway</title><h1>Fairway</h1><p>{text}</p>"
        return HTMLResponse(body, status, headers={"Cache-Control": "no-store"})
