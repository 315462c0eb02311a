"""Standard error that is closed, broken or full: a log line neither raises nor blocks, and what is lost is counted."""

import json
import os
import subprocess
import sys
import time

import pytest

from fairway.app import logs as log_stream
from fairway.app.logs import LogStream, RunLog

TIMEOUT = 300


class Unshowable:
    def __str__(self) -> str:
        raise ValueError("no text")


def broken(line: str) -> None:
    raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_log_that_cannot_be_written_raises_nothing(form: str) -> None:
    log = RunLog(form, write=broken)
    log.error("lost", why="a reason")
    assert [text for _, _, text in log.recent] == ["lost: a reason"], "the page still shows it"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("value", [Unshowable(), object(), "half \ud800", {1: {2}}, b"\xff", float("nan")])
def test_a_field_that_cannot_be_shown_loses_no_line(form: str, value: object) -> None:
    lines: list[str] = []
    RunLog(form, write=lines.append).info("bound", pod="a/p", odd=value)
    assert len(lines) == 1
    assert "bound" in lines[0]
    assert "a/p" in lines[0]
    lines[0].encode()
    if form == "json":
        assert json.loads(lines[0])["pod"] == "a/p"


PROGRAM = """
import sys, time
from fairway.app.logs import standard_error
from fairway.app.logs import RunLog
log = RunLog("json", write=standard_error)
standard_error.describe_dropped = log.dropped_line
for number in range(int(sys.argv[1])):
    log.info("line", number=number, filler="x" * 100)
print("went on", flush=True)
sys.stdin.readline()
standard_error.flush(float(sys.argv[2]))
log.info("after")
"""


def program(lines: int, stderr: int | None, preexec=None, *, waits: bool = False) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, str(lines), str(TIMEOUT if waits else 0)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, text=True, preexec_fn=preexec)


def test_a_full_pipe_blocks_no_thread_and_what_was_dropped_is_counted() -> None:
    reader, writer = os.pipe()
    process = program(50_000, writer, waits=True)
    os.close(writer)
    assert process.stdout is not None
    assert process.stdout.readline() == "went on\n", "it logged 8 MB to a reader that reads nothing"
    assert process.stdin is not None
    text = b""
    process.stdin.write("\n")
    process.stdin.flush()
    while chunk := os.read(reader, 1 << 16):
        text += chunk
    assert process.wait(TIMEOUT) == 0
    process.communicate()
    found = [json.loads(line) for line in text.decode().splitlines()]
    assert found[-1]["message"] == "after"
    assert found[-2]["message"] == "log lines were dropped"
    assert found[-2]["lines"] + len(found) - 2 == 50_000
    os.close(reader)


def test_a_full_pipe_delays_the_exit_by_a_second_at_most() -> None:
    reader, writer = os.pipe()
    process = program(50_000, writer)
    os.close(writer)
    assert process.stdout is not None
    process.stdout.readline()
    begin = time.monotonic()
    process.communicate("\n", timeout=TIMEOUT)
    assert process.returncode == 0
    assert time.monotonic() - begin < TIMEOUT / 2
    os.close(reader)


def test_a_reader_that_is_gone_ends_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = program(100, writer)
    os.close(writer)
    out, _ = process.communicate("\n", timeout=TIMEOUT)
    assert (process.returncode, out) == (0, "went on\n")


def test_closed_standard_error_ends_nothing() -> None:
    process = program(100, None, preexec=lambda: os.close(2))
    out, _ = process.communicate("\n", timeout=TIMEOUT)
    assert (process.returncode, out) == (0, "went on\n")


def test_a_stream_that_is_replaced_gets_lines_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    LogStream()("a line")
    assert capsys.readouterr().err == "a line\n"


def test_the_memory_of_unwritten_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(log_stream, "_descriptor", lambda: writer)
    stream = LogStream()
    for _ in range(3000):
        stream("x" * 1023)
    assert stream._bytes <= log_stream.MAX_BYTES
    assert stream.dropped > 1500
    assert not stream.flush(0.01)
    kept = 3000 - stream.dropped
    text = b""
    while text.count(b"\n") < kept:
        text += os.read(reader, 1 << 16)
    assert stream.flush(TIMEOUT)
    for end in (reader, writer):
        os.close(end)
