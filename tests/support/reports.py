"""Reports as files: a page that stands in for the built one, and the data inside a report."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

INDEX = """\
<!doctype html>
<html lang="en">
  <head>
    <link rel="icon" href="./icon.svg" type="image/svg+xml" />
    <script type="module" crossorigin src="./assets/index-a1.js"></script>
    <link rel="stylesheet" crossorigin href="./assets/index-a1.css">
  </head>
  <body><div id="app"></div></body>
</html>
"""
SCRIPT = 'const inner = "</script>"; document.title = inner;'


def write_page(folder: Path) -> Path:
    """A page as the build leaves it, without Node: what a report takes from it are its files, not what they do."""
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "icon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "assets" / "index-a1.js").write_text(SCRIPT)
    (folder / "assets" / "index-a1.css").write_text("main { color: red }")
    return folder


class ReportReader(HTMLParser):
    """Reads a document as a browser does, and collects what is inside its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.blocks: list[tuple[dict[str, str | None], str]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.tags: list[str] = []
        self._inside: dict[str, str | None] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        self._inside = {"tag": tag, **dict(attrs)} if tag in ("script", "style") else None

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.blocks.append((self._inside, data))

    def block(self, tag: str, kind: str | None = None) -> str:
        return "".join(text for attrs, text in self.blocks if attrs["tag"] == tag and kind in (None, attrs.get("type")))


def embedded(path: Path) -> Any:
    """The view model inside a report."""
    reader = ReportReader(path.read_text())
    if packed := reader.block("script", "application/gzip"):
        return json.loads(gzip.decompress(b64decode(packed)))
    return json.loads(reader.block("script", "application/json"))
