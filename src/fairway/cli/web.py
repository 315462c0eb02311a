"""`fairway web`: a recorded run as a page, or the page of a report, offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairway.cli.output import echo

if TYPE_CHECKING:
    from pathlib import Path

REPORTS = ("report.html", "diff.html")


@click.command(
    epilog="""\b
Examples:
  fairway simulate SCENARIO --record run     record a simulated run
  fairway web run                            look at it
  fairway web run --cycle 120                as it was in that cycle
  fairway run --record /var/fairway          record a live scheduler
  fairway simulate SCENARIO --out out        write a report
  fairway web out --open                     look at it"""
)
@click.argument("recording", metavar="RECORDING")
@click.option("--cycle", type=click.IntRange(0), metavar="N", help="Up to this cycle; default all of them.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="The port; default any free one.")
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
def command(recording: str, cycle: int | None, port: int, opens: bool) -> None:
    """Serve the page of a RECORDING on the loopback address, until Ctrl-C.

    Every cycle is decided again, so what the page says of jobs, shares and evictions is what was so. Of a report (a
    folder of simulate --out or diff --out) the address of its page is printed: it needs no server.
    """
    from contextlib import suppress
    from pathlib import Path
    from threading import Event

    from fairway.app.stopping import interrupt, stop_signals
    from fairway.errors import InputError

    report = report_page(Path(recording))
    if report is not None:
        if cycle is not None:
            raise InputError(f"{recording}: is a report, expected a recording for --cycle")
        echo(f"Report at {report.as_uri()}")
        if opens:
            _open(report.as_uri())
        return
    try:
        from fairway.web.access import new_token
        from fairway.web.loopback import LoopbackPage
        from fairway.web.recording import recorded
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed, expected: pip install 'fairway[web]'") from None
    with stop_signals(interrupt), suppress(KeyboardInterrupt):
        page = LoopbackPage(recorded(Path(recording), cycle), port, new_token())
        page.start()
        try:
            echo(f"Page at {page.address}; Ctrl-C stops it")
            if opens:
                _open(page.address)
            Event().wait()
        finally:
            page.stop()


def report_page(given: Path) -> Path | None:
    """The page of a report, which is one file: what is given, or in the folder that is given."""
    pages = [given] if given.name in REPORTS else [given / name for name in REPORTS]
    return next((page.resolve() for page in pages if page.is_file()), None)


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
