"""Trace files made to hurt, in every format: bytes flipped, fields swapped, numbers blown up, lines cut and repeated.

Whatever the file says, `fairway simulate` ends with exit status 0 or 2, soon, and without taking the machine's memory.
`make fuzz` draws new ones.
"""

from __future__ import annotations

import gzip
import json
import re
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.errors import InputError
from fairway.sim.traces import FORMATS, TraceColumns, TraceJob, TraceProblems, open_nodes, open_trace
from fairway.sim.traces.formats import NODE_FORMATS
from support.cli import invoke
from support.effort import examples

pytestmark = pytest.mark.hypothesis  # so that `make fuzz` selects tests with a property inside, too
EXAMPLES = examples(40, 3000)
MAX_GROWTH = 400_000
"""KiB that the process may grow by."""

_SWF_LINES = (f"{n} {n * 3} 0 5 {n % 4 + 1} -1 -1 2 9 64 1 {n % 3} 1 1 1 1 -1 -1" for n in range(6))
SWF = "\n".join(["; MaxNodes: 4", "; MaxProcs: 8", *_SWF_LINES])
BATSIM = json.dumps(
    {
        "nb_res": 4,
        "jobs": [{"id": n, "subtime": n * 1.5, "walltime": 9, "res": n % 3 + 1, "profile": "p"} for n in range(5)],
        "profiles": {"p": {"type": "delay", "delay": 4.25}},
    },
    indent=1,
)
OPENB = "\n".join(
    [
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
        *(f"p{n},1000,512,1,500,T4|P100,LS,Running,{n},{n + 9},{n + 1}" for n in range(5)),
    ]
)
OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,1024,2,T4\nn2,64000,2048,8,P100\n"
PHILLY = "timestamp,duration,num_gpus,cluster\n" + "".join(
    f"2017-10-0{n} 07:01:55,{n}.5,{n},c{n}\n" for n in range(1, 6)
)
CSV = "when,seconds,n,user,cores,prio,cap\n" + "".join(f"{n},{n * 2},{n % 3 + 1},u{n % 2},2,{n},9\n" for n in range(6))
RECORDING = "\n".join(
    json.dumps(line)
    for line in [
        {"at": "2026-01-01T00:00:00Z", "event": "node", "name": "n1", "allocatable": {"cpu": "64"}, "labels": {}},
        {"at": "2026-01-01T00:00:05Z", "event": "submitted", "job": "a/x", "tasks": 4, "request": {"cpu": 2}},
        {"at": "2026-01-01T00:00:06Z", "event": "submitted", "job": "a/y", "request": {"cpu": "1"}, "limit": 60},
        {"at": "2026-01-01T00:01:00Z", "event": "started", "job": "a/x"},
        {"at": "2026-01-01T00:02:00Z", "event": "evicted", "job": "a/x"},
        {"at": "2026-01-01T00:03:00Z", "event": "started", "job": "a/x"},
        {"at": "2026-01-01T00:03:00Z", "event": "started", "job": "a/y"},
        {"at": "2026-01-01T00:04:00Z", "event": "ended", "job": "a/x"},
    ]
)  # fmt: skip
COLUMNS = "submit: when, run: seconds, tasks: n, namespace: user, priority: prio, limit: cap, request: {cpu: cores}"
FILES = {"swf": SWF, "batsim": BATSIM, "openb": OPENB, "philly": PHILLY, "csv": CSV, "recording": RECORDING}
HOSTILE = [
    "2147483648", "-1", "0", "99999999999999999999", "9" * 5000, "1e400", "1e18", "nan", "inf", "-0.5", "0x10", "true",
    "null", "[]", "{}", '"', "\x00", "\ufeff", "\u202e", "é" * 300, "\\ud800", "2017-13-45 99:99:99",
    "0001-01-01 00:00:00", "9999-12-31 23:59:59", "9999-12-31T23:59:59Z", "[" * 3000,
    '{"a":' * 3000, ",", "|", ";", " ", "\n", "\r", "1_000",
]  # fmt: skip


def mutated(text: str, dice: Random) -> bytes:
    """A few changes, so that most of the file is still as it should be."""
    for _ in range(dice.randint(1, 4)):
        lines = text.split("\n")
        place = dice.randrange(len(lines))
        kind = dice.randrange(6)
        if kind == 0:
            words = lines[place].replace(",", " , ").replace(":", " : ").split(" ")
            words[dice.randrange(len(words))] = dice.choice(HOSTILE)
            lines[place] = "".join(words) if "," in lines[place] else " ".join(words)
        elif kind == 1:
            lines.insert(place, dice.choice(lines))
        elif kind == 2:
            del lines[place]
        elif kind == 3:
            lines[place] = lines[place][: dice.randrange(len(lines[place]) + 1)]
        elif kind == 4:
            other = dice.randrange(len(lines))
            lines[place], lines[other] = lines[other], lines[place]
        else:
            at = dice.randrange(len(lines[place]) + 1)
            lines[place] = lines[place][:at] + dice.choice(HOSTILE) + lines[place][at:]
        text = "\n".join(lines) or " "
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(dice.choice((0, 0, 0, 1, 5))):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return gzip.compress(bytes(data))[: dice.choice((None, -9))] if dice.random() < 0.1 else bytes(data)


def scenario(format: str) -> str:
    columns = f", columns: {{{COLUMNS}}}" if format == "csv" else ""
    has_nodes = format in NODE_FORMATS and format != "openb"
    nodes = f"{{trace: {{format: {format}, file: t}}}}" if has_nodes else "{nodes: 2 x {cpu: 8, nvidia.com/gpu: 8}}"
    return f"cluster: {nodes}\nworkload: {{trace: {{format: {format}, file: t{columns}}}}}\nend: 30d\n"


@pytest.mark.parametrize("format", FORMATS)
def test_the_files_themselves_run(format: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(FILES[format])
    (tmp_path / "s.yaml").write_text(scenario(format))
    result = invoke("simulate", str(tmp_path / "s.yaml"), "--strict", "-o", "json")
    if format == "recording":
        assert "a/y" not in result.err
    assert result.code == 0, result.err
    assert json.loads(result.out)["metrics"]["submitted"] >= 2


@pytest.mark.parametrize("format", FORMATS)
def test_no_trace_makes_a_run_fail_as_an_error_of_ours(format: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(scenario(format))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(st.integers(0, 2**32))
    def runs(seed: int) -> None:
        (tmp_path / "t").write_bytes(mutated(FILES[format], Random(seed)))
        result = invoke("simulate", str(tmp_path / "s.yaml"))
        assert result.code in (0, 2), (result.err, result.out)
        assert "Traceback" not in result.err
        if result.code == 2:
            assert result.err.strip()

    runs()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_GROWTH


@pytest.mark.parametrize("format", FORMATS)
def test_any_bytes_are_read_or_refused(format: str, tmp_path: Path) -> None:
    columns = TraceColumns(submit="when", run="seconds") if format == "csv" else None

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(st.binary(max_size=400), st.booleans())
    def reads(data: bytes, after_a_good_start: bool) -> None:
        path = tmp_path / "t"
        path.write_bytes(FILES[format].encode() + b"\n" + data if after_a_good_start else data)
        for stream in _streams(path, format, columns):
            with suppress(InputError):
                for _ in zip(range(10_000), stream, strict=False):
                    pass

    reads()


def _streams(path: Path, format: str, columns: TraceColumns | None) -> Iterator[Iterator[object]]:
    jobs: Iterator[TraceJob] = open_trace(path, format, TraceProblems("t"), columns)
    yield jobs
    if format in NODE_FORMATS:
        yield _nodes(path, format)


def _nodes(path: Path, format: str) -> Iterator[object]:
    yield from open_nodes(path, format, TraceProblems("t"))


ODD_CELLS = [
    "", " ", "\t", "\x1c", "\x1c5", "5\x1d", "\x85 5", "\xa05", "\u2003", "\u0665", "５", "²", "1_000", "+5", "-5",
    "-0", "--5", "5.", ".5", ".", "1e3", "1E400", "1e-400", "1e99999999999", "nan", "NaN", "snan", "inf", "-Infinity",
    "0x10", "true",
    "None", "2147483647", "2147483648", "-2147483648", "-2147483649", "999999999999999", "9" * 19, "9" * 5000,
    "2017-10-09 07:01:55", "\x00", "\ufffd", "é",
]  # fmt: skip


def _with_odd_cells(format: str) -> str:
    """The file and, behind it, one more row for each odd value in each of its places."""
    if format == "batsim":
        whole = json.loads(BATSIM)
        cells: list[Any] = [*ODD_CELLS, None, [], {}, 1e300]
        odd = [{**whole["jobs"][0], key: cell} for key in whole["jobs"][0] for cell in cells]
        return json.dumps({**whole, "jobs": [*whole["jobs"], *odd]})
    *_, row = FILES[format].splitlines()
    if format == "recording":
        lines = [json.loads(line) for line in RECORDING.splitlines()]
        values: list[Any] = [*ODD_CELLS, None, [], {}, 1e300, -1, 2**31, 10**30]
        odd_lines = [json.dumps({**line, key: cell}) for line in lines for key in line for cell in values]
        return "\n".join([RECORDING, *odd_lines])
    sign = " " if format == "swf" else ","
    cells = row.split(sign)
    rows = [[*cells[:at], cell, *cells[at + 1 :]] for at in range(len(cells)) for cell in ODD_CELLS]
    return "\n".join([FILES[format], *(sign.join(row) for row in rows)])


@pytest.mark.parametrize("format", FORMATS)
def test_an_odd_value_in_any_column_is_read_or_left_out_and_the_others_run(format: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(_with_odd_cells(format))
    (tmp_path / "s.yaml").write_text(scenario(format))
    result = invoke("simulate", str(tmp_path / "s.yaml"), "-o", "json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["metrics"]["submitted"] >= 2


@pytest.mark.parametrize("blank", ["", " ", "\t", "\x1c", "\u2003"])
def test_a_blank_optional_cell_is_an_absent_one(blank: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(f"{CSV}7,3,1,u1,2,{blank},{blank}\n")
    columns = TraceColumns("when", "seconds", priority="prio", limit="cap")
    *_, last = open_trace(tmp_path / "t", "csv", TraceProblems("t", strict=True), columns)
    assert (last.priority, last.limit) == (0, None)


GIANT = "2147483648"
SWF_JOBS = re.sub(r"-1 -1 2 9", f"-1 -1 {GIANT} 9", SWF)
BATSIM_JOBS = re.sub(r'"res": \d', f'"res": {GIANT}', BATSIM)
PHILLY_JOB = f"{PHILLY.splitlines()[0]}\n2017-10-09 07:01:55,5,{GIANT},c\n"
RECORDED = re.sub(r'"tasks": 4|"limit": 60', '"tasks": 2000000000', RECORDING)
LATE = f"{OPENB.splitlines()[0]}\np,1,1,0,0,,LS,Running,{'9' * 15},{'9' * 15},{'9' * 15}\n"
TOO_MANY = "tasks, expected at most 100000; `onePod: true` makes a job one pod"


@pytest.mark.parametrize(
    ("format", "text", "message"),
    [
        ("swf", SWF_JOBS, f"{GIANT} {TOO_MANY}"),
        ("swf", SWF.replace("MaxNodes: 4\n; MaxProcs: 8", f"MaxProcs: {GIANT}"), f"{GIANT} machines, expected at most"),
        ("batsim", BATSIM.replace('"nb_res": 4', f'"nb_res": {GIANT}'), f"{GIANT} machines, expected at most 200000"),
        ("batsim", BATSIM_JOBS, f"{GIANT} {TOO_MANY}"),
        ("philly", PHILLY_JOB, f"{GIANT} {TOO_MANY}"),
        ("csv", f"{CSV.splitlines()[0]}\n0,1,{GIANT},u,2,0,9\n", f"{GIANT} {TOO_MANY}"),
        ("csv", f"{CSV.splitlines()[0]}\n0,{'9' * 15},1,u,2,0,9\n", "is not a time, expected a number from 0 to"),
        ("recording", RECORDED, f"2000000000 {TOO_MANY}"),
        ("openb", LATE, "is not a time, expected a number from 0 to"),
    ],
)
def test_a_giant_number_is_refused_before_anything_is_made(
    format: str, text: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "t").write_text(text)
    (tmp_path / "s.yaml").write_text(scenario(format))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = invoke("simulate", str(tmp_path / "s.yaml"))
    assert (result.code, message in result.err) == (2, True), result.err
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_one_giant_job_is_left_out_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(SWF + "\n9 99 0 5 1 -1 -1 2147483648 9 64 1 1 1 1 1 1 -1 -1\n")
    (tmp_path / "s.yaml").write_text(scenario("swf"))
    result = invoke("simulate", str(tmp_path / "s.yaml"), "-o", "json")
    assert result.code == 0
    report = json.loads(result.out)
    assert report["metrics"]["submitted"] == 6
    assert any("job user-1/job-000009: 2147483648 tasks, expected at most" in line for line in report["warnings"])


def test_a_line_without_an_end_is_not_held_in_memory(tmp_path: Path) -> None:
    """A little gzip that unfolds to one line of 100 MB."""
    with gzip.open(tmp_path / "t", "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(b"1" * 1_000_000)
    (tmp_path / "s.yaml").write_text(
        scenario("swf").replace("{trace: {format: swf, file: t}}", "{nodes: 1 x {cpu: 1}}", 1)
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = invoke("simulate", str(tmp_path / "s.yaml"))
    assert (result.code, "t:1: a line of more than 1048576 characters" in result.err) == (2, True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
