"""`fairway web`: the web page of a recorded run, of a report, or of a live scheduler in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fairway.cli import inputs
from fairway.cli.output import echo
from fairway.cli.program_options import log_options, page_options

if TYPE_CHECKING:
    from pathlib import Path

REPORTS = ("report.html", "diff.html")


@click.command(
    epilog="""\b
Examples:
  fairway simulate SCENARIO --record run     record a simulated run
  fairway web run                            show the recording
  fairway web run --cycle 120                show it up to cycle 120
  fairway run --record /var/fairway          record a live scheduler
  fairway simulate SCENARIO --out out        write a report
  fairway web out --open                     show the report
  fairway run --feed-socket /run/fairway/feed.sock    feed a page
  fairway web --feed /run/fairway/feed.sock --web 127.0.0.1:7333"""
)
@click.argument("recording", metavar="[RECORDING]", required=False)
@click.option(
    "--cycle", type=click.IntRange(0), metavar="N", help="Last cycle to show. Defaults to the last one recorded."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port to listen on. Defaults to a free one."
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--feed", metavar="PATH", help="Socket of a live scheduler (its --feed-socket) whose page is served.")
@click.option(
    "--web", metavar="HOST:PORT", help="With --feed: address to serve the page on.  [default: 127.0.0.1:7333]"
)
@page_options
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of the cluster, for --web-access cluster.")
@click.option("--context", metavar="NAME", help="Kubeconfig context. Defaults to the current one.")
@click.option("--hub", metavar="FILE", help="Kubeconfig of a hub, for the fleet view.")
@log_options
def command(recording: str | None, cycle: int | None, port: int, opens: bool, feed: str | None, **flags: Any) -> None:
    """Serve the web page of a RECORDING on the loopback address until interrupted.

    Every recorded cycle is decided again, so jobs, shares and evictions are shown as they were. If RECORDING is a
    report (a directory written by simulate --out or diff --out), its address is printed; a report needs no server.

    With --feed, serve the page of a live scheduler from a separate process or container. The scheduler never waits
    for the page, so nothing that happens to the page affects scheduling.
    """
    if feed is not None:
        if recording is not None or cycle is not None:
            raise click.UsageError("--feed serves a live scheduler and cannot be combined with RECORDING or --cycle")
        _serve_feed(feed, opens, flags)
        return
    if recording is None:
        raise click.UsageError("expected a RECORDING, or --feed PATH")
    if any(value is not None for value in flags.values()):
        given = next(name for name, value in flags.items() if value is not None).replace("_", "-")
        raise click.UsageError(f"--{given} requires --feed")
    from contextlib import suppress
    from pathlib import Path
    from threading import Event

    from fairway.app.stopping import interrupt, stop_signals
    from fairway.errors import InputError

    report = report_page(Path(recording))
    if report is not None:
        if cycle is not None:
            raise InputError(f"{recording}: is a report, but --cycle requires a recording")
        echo(f"Report at {report.as_uri()}")
        if opens:
            _open(report.as_uri())
        return
    try:
        from fairway.web import LoopbackPage, new_token, recorded
    except ModuleNotFoundError as error:
        raise inputs.missing_extra(error, "web") from None
    with stop_signals(interrupt), suppress(KeyboardInterrupt):
        page = LoopbackPage(recorded(Path(recording), cycle), port, new_token())
        page.start()
        try:
            echo(f"Page at {page.address}; press Ctrl-C to stop")
            if opens:
                _open(page.address)
            Event().wait()
        finally:
            page.stop()


def _serve_feed(feed: str, opens: bool, flags: dict[str, Any]) -> None:
    import sys

    from fairway.app.stopping import stop_signals
    from fairway.cli.output import program_log

    try:
        from fairway.web import FeedReader, page_address, page_settings
    except ModuleNotFoundError as error:
        raise inputs.missing_extra(error, "web") from None
    hosts = tuple(name.strip() for name in (flags["web_hosts"] or "").split(",") if name.strip())
    settings = page_settings(
        flags["web"] or "127.0.0.1:7333",
        flags["web_access"] or "auto",
        hosts=hosts,
        allow_actions=bool(flags["allow_actions"]),
        certificate=flags["web_cert"],
        key=flags["web_key"],
        kubeconfig=flags["kubeconfig"],
        context=flags["context"],
        history=flags["web_history"],
        hub=flags["hub"],
        logFormat=flags["log_format"],
        logLevel=flags["log_level"],
        feed=feed,
    )
    log = program_log(settings.log_format, settings.log_level)
    reader = FeedReader(settings, log)
    address = page_address(settings)
    if sys.stdout.isatty() or not settings.token:
        echo(f"Page at {address}")
    else:  # output may be saved, and must not contain a token
        log.info("serving the page; set its token with FAIRWAY_WEB_TOKEN", address=address.partition("#")[0])
    if opens:
        _open(address)
    with stop_signals(reader.stop):
        reader.run()


def report_page(given: Path) -> Path | None:
    """The HTML page of a report, given as that file or as its directory; None if it is not a report."""
    pages = [given] if given.name in REPORTS else [given / name for name in REPORTS]
    return next((page.resolve() for page in pages if page.is_file()), None)


def _open(address: str) -> None:
    import webbrowser

    webbrowser.open(address)
