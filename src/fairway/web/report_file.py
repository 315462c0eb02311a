"""The report of a run as one HTML file: the built page with the report inside, for any browser, without a server.

The script and the style of the page are put into the document, and the view model into a block of data that the script
reads instead of asking a server. Names in a report come from manifests and traces, so nothing in it may end the block
early: as JSON every `<` is escaped, and a large report is compressed and written in base64, which has no `<` at all. A
Content-Security-Policy in the document allows exactly this script and this style and no request of any kind, so an
opened report neither loads nor sends anything.

This module needs nothing but the standard library and msgspec: reports are written without the extra `web`.
"""

from __future__ import annotations

import gzip
import html
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import msgspec

from fairway.app.view.models.runs import ReportView
from fairway.sim.report import OutputFiles

PAGE = Path(__file__).parent / "page"
"""Where `tools/build_page.py` puts the built page; packages contain it."""
NOT_BUILT = (
    "the HTML page of the report was not written, because the web page is not built: run `python tools/build_page.py` "
    "in the source tree (Node 20.19 or later; without it, Node is installed from PyPI), then run the command again"
)
COMPRESSED_FROM = 64 << 10
"""Bytes of JSON from which on the data is compressed: a small report stays readable in an editor."""
MAX_DATA = 8 << 20
"""Bytes of JSON. The model bounds its lists; only names of extreme length can exceed this."""
DATA_ID = "fairway-report"

_SCRIPT = re.compile(r'<script type="module"[^>]*\ssrc="\./([^"]+)"[^>]*></script>')
_STYLE = re.compile(r'<link rel="stylesheet"[^>]*\shref="\./([^"]+)"[^>]*>')
_ICON = re.compile(r'<link rel="icon"[^>]*\shref="\./([^"]+)"[^>]*>')


def write_page(files: OutputFiles, name: str, view: ReportView) -> None:
    """Write the file `name`. Where the page is not built, remove an older one, which would show another run."""
    if (PAGE / "index.html").is_file():
        files.write(name, report_html(view))
    else:
        files.remove(name)


def report_html(view: ReportView, page: Path | None = None) -> bytes:
    """The whole document. The same view and page give the same bytes."""
    folder = page or PAGE
    index = (folder / "index.html").read_text(encoding="utf-8")
    scripts = [_script_text(folder / path) for path in _SCRIPT.findall(index)]
    styles = [(folder / path).read_text(encoding="utf-8").replace("</", "<\\/") for path in _STYLE.findall(index)]
    script, style = "\n".join(scripts), "\n".join(styles)
    icon = _ICON.search(index)
    image = "" if icon is None else _data_address((folder / icon[1]).read_bytes())
    policy = (
        f"default-src 'none'; img-src data:; script-src '{_digest(script)}'; "
        f"style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'"
    )
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html.escape(view.title)} – Fairway</title>\n"
        f'<link rel="icon" href="{image}">\n<style>{style}</style>\n</head>\n<body>\n<div id="app"></div>\n'
        f"<noscript>This report needs JavaScript. report.json, or diff.json, has the same figures.</noscript>\n"
        f"{_data_block(view)}\n"
        f'<script type="module">{script}</script>\n</body>\n</html>\n'
    ).encode()


def _script_text(path: Path) -> str:
    """In JavaScript, `</script` occurs in strings and patterns only, where `\\/` means the same as `/`."""
    return re.sub(r"</(script)", r"<\\/\1", path.read_text(encoding="utf-8"), flags=re.IGNORECASE)


def _data_block(view: ReportView) -> str:
    data = msgspec.json.encode(view)
    if len(data) > MAX_DATA:
        data = msgspec.json.encode(_without_timelines(view))
    if len(data) >= COMPRESSED_FROM:
        # The header of gzip holds a time unless it is set: the same run has to give the same bytes.
        text = b64encode(gzip.compress(data, mtime=0)).decode()
        return f'<script type="application/gzip" id="{DATA_ID}">{text}</script>'
    # In JSON a `<` occurs in strings only. U+2028 and U+2029 are fine: the block is data, never a script.
    text = data.decode().replace("<", "\\u003c")
    return f'<script type="application/json" id="{DATA_ID}">{text}</script>'


def _without_timelines(view: ReportView) -> ReportView:
    note = "The report was too large with the timeline of nodes; it was left out."
    runs = [msgspec.structs.replace(run, timeline=[], timeline_note=note) for run in view.runs]
    return msgspec.structs.replace(view, runs=runs)


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _data_address(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{b64encode(svg).decode()}"
