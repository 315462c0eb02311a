"""`fairway web`: a recorded run as a page, offline."""

from __future__ import annotations

import click

from fairway.cli.output import echo


@click.command(
    epilog="""\b
Examples:
  fairway simulate SCENARIO --record run     record a simulated run
  fairway web run                            look at it
  fairway web run --cycle 120                as it was in that cycle
  fairway run --record /var/fairway          record a live scheduler"""
)
@click.argument("recording", metavar="RECORDING")
@click.option("--cycle", type=click.IntRange(0), metavar="N", help="Up to this cycle; default all of them.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="The port; default any free one.")
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
def command(recording: str, cycle: int | None, port: int, opens: bool) -> None:
    """Serve the page of a RECORDING on the loopback address, until Ctrl-C.

    Every cycle is decided again, so what the page says of jobs, shares and evictions is what was so.
    """
    import signal
    from contextlib import suppress
    from pathlib import Path
    from threading import Event

    from fairway.errors import InputError

    try:
        from fairway.web.access import new_token
        from fairway.web.loopback import LoopbackPage
        from fairway.web.recording import recorded
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed, expected: pip install 'fairway[web]'") from None
    page = LoopbackPage(recorded(Path(recording), cycle), port, new_token())
    page.start()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        echo(f"Page at {page.address}; Ctrl-C stops it")
        if opens:
            import webbrowser

            webbrowser.open(page.address)
        with suppress(KeyboardInterrupt):
            Event().wait()
    finally:
        page.stop()
