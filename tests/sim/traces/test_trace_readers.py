"""Each format on a tiny made-up file: what a job becomes, what a wrong row says, and that strict refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fairway.clock import SECOND
from fairway.errors import InputError
from fairway.sim.traces import GPU, AmountColumn, TraceColumns, TraceJob, TraceProblems, open_nodes, open_trace

OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
late,6000,2,2,1000,,BE,Running,9,20,10
shared,500,1,1,460,A10|T4,LS,Running,5,25,
"""
SWF = """\
; MaxProcs: 5
; MaxNodes: 2
 7 100 3 50 4 -1 -1 8 60 -1 1 12 1 -1 3 -1 -1 -1
 8 90 3 70.5 4 -1 -1 -1 60 2048 1 13 1 -1 -1 -1 -1 -1
"""
BATSIM = json.dumps(
    {
        "nb_res": 12,
        "jobs": [
            {"id": 2, "profile": "p", "res": 3, "subtime": 4.7091640212, "walltime": 20},
            {"id": 1, "profile": "p", "res": 1, "subtime": 1, "walltime": -1},
        ],
        "profiles": {"p": {"type": "delay", "delay": 10.5}},
    },
    indent=1,
)
PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 07:01:50,10.5,4,42.0,6214e9
"""
RECORDING = """\
{"at":"2026-01-01T00:00:00Z","event":"node","name":"n1","allocatable":{"cpu":"4","nvidia.com/gpu":2},"labels":{"a":"b"}}
{"at":"2026-01-01T00:00:01Z","event":"submitted","job":"a/x","queue":"q","tasks":2,"request":{"cpu":"500m"},"limit":9}
{"at":"2026-01-01T00:00:02Z","event":"submitted","job":"b/y","request":{"nvidia.com/gpu":1},"priority":3}
{"at":"2026-01-01T00:00:03Z","event":"started","job":"b/y"}
{"at":"2026-01-01T00:00:04Z","event":"started","job":"a/x"}
{"at":"2026-01-01T00:00:05Z","event":"evicted","job":"a/x"}
{"at":"2026-01-01T00:00:07Z","event":"started","job":"a/x"}
{"at":"2026-01-01T00:00:08Z","event":"ended","job":"b/y"}
{"at":"2026-01-01T00:00:11Z","event":"ended","job":"a/x"}
"""


def read(
    tmp_path: Path, text: str, format: str, columns: TraceColumns | None = None
) -> tuple[list[TraceJob], TraceProblems]:
    path = tmp_path / "trace"
    path.write_text(text)
    faults = TraceProblems("trace")
    return list(open_trace(path, format, faults, columns)), faults


def test_openb_runs_from_schedule_to_deletion_and_keeps_parts_of_a_gpu(tmp_path: Path) -> None:
    (shared, late), faults = read(tmp_path, OPENB, "openb")
    assert not faults.count
    assert (shared.key, shared.submit, shared.run) == ("ls/shared", 5 * SECOND, 20 * SECOND)
    assert shared.request == {"cpu": 500, "memory": 1 << 20, GPU: 460}
    assert (shared.gpus, shared.gpu_milli, shared.gpu_models) == (1, 460, ("A10", "T4"))
    assert (late.submit, late.run, late.request[GPU]) == (9 * SECOND, 10 * SECOND, 2000)


def test_openb_nodes_carry_their_model(tmp_path: Path) -> None:
    path = tmp_path / "nodes"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,2,2,P100\nn-1,1000,1,0,\n")
    gpu, plain = open_nodes(path, "openb", TraceProblems("nodes"))
    assert (gpu.allocatable[GPU], gpu.labels) == (2000, {"nvidia.com/gpu.product": "P100"})
    assert plain.allocatable == {"cpu": 1000, "memory": 1 << 20}
    assert not plain.labels


def test_swf_takes_what_was_asked_for_and_falls_back_on_what_was_allocated(tmp_path: Path) -> None:
    (first, second), faults = read(tmp_path, SWF, "swf")
    assert not faults.count
    assert (first.name, first.tasks, first.duration) == ("job-000008", 4, 60 * SECOND)
    assert first.request == {"cpu": 1000, "memory": 2048 << 10}
    assert (second.key, second.queue, second.tasks, second.limit) == (
        "user-12/job-000007",
        "queue-3",
        8,
        60 * SECOND,
    )


def test_swf_header_gives_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(SWF)
    assert [node.allocatable["cpu"] for node in open_nodes(path, "swf", TraceProblems("trace"))] == [3000, 2000]


def test_batsim_reads_run_times_from_profiles_and_sorts_by_submission(tmp_path: Path) -> None:
    (first, second), faults = read(tmp_path, BATSIM, "batsim")
    assert not faults.count
    assert (first.name, first.limit, first.duration) == ("job-000001", None, 10_500_000)
    assert (second.submit, second.tasks, second.limit) == (4_709_164, 3, 20 * SECOND)
    hosts = [node.name for node in open_nodes(tmp_path / "trace", "batsim", TraceProblems("trace"))]
    assert hosts == sorted(hosts)
    assert len(hosts) == 12


def test_philly_is_a_gang_with_a_task_per_gpu(tmp_path: Path) -> None:
    (first, second), _ = read(tmp_path, PHILLY, "philly")
    assert (first.tasks, first.run, first.request, first.namespace) == (4, 10_500_000, {GPU: 1000}, "6214e9")
    assert second.submit - first.submit == 5 * SECOND


def test_recording_takes_the_run_after_the_last_start(tmp_path: Path) -> None:
    (first, second), faults = read(tmp_path, RECORDING, "recording")
    assert not faults.count
    assert (first.key, first.queue, first.tasks, first.run, first.limit) == (
        "a/x",
        "q",
        2,
        4 * SECOND,
        9 * SECOND,
    )
    assert (second.key, second.run, second.priority, second.gpus) == ("b/y", 5 * SECOND, 3, 1)
    (node,) = open_nodes(tmp_path / "trace", "recording", TraceProblems("trace"))
    assert (node.name, node.allocatable, node.gpus) == ("n1", {"cpu": 4000, GPU: 2000}, 2)


def test_a_recording_that_stops_early_keeps_what_ran_and_counts_what_never_started(tmp_path: Path) -> None:
    cut = "".join(line for line in RECORDING.splitlines(True) if '"ended"' not in line and "07Z" not in line)
    (only,), faults = read(tmp_path, cut, "recording")
    assert (only.key, only.run) == ("b/y", 2 * SECOND)
    assert [str(fault) for fault in faults.examples] == ["trace:2: a/x never started"]


def test_csv_by_columns(tmp_path: Path) -> None:
    columns = TraceColumns(
        submit="when",
        run="ms",
        unit="ms",
        tasks="n",
        namespace="who",
        limit="wall",
        priority="prio",
        request={"cpu": "cores", "memory": AmountColumn("mem", "Mi")},
    )
    text = "when,ms,n,who,wall,prio,cores,mem\n2026-01-01 00:00:01,1500,2,Team A,,-3,0.5,3\n2000,1,1,b,5,,,\n"
    (second, first), faults = read(tmp_path, text, "csv", columns)
    assert not faults.count
    assert (first.key, first.run, first.tasks, first.limit, first.priority) == (
        "team-a/job-000000",
        1_500_000,
        2,
        None,
        -3,
    )
    assert first.request == {"cpu": 500, "memory": 3 << 20}
    assert (second.submit, second.limit, second.request) == (2 * SECOND, 5000, {"cpu": 0, "memory": 0})


@pytest.mark.parametrize(
    ("format", "good", "bad", "message"),
    [
        ("openb", OPENB, "p,1,1,2,500,,BE,Running,1,2,1", "trace:4: 2 GPUs of 500 thousandths each"),
        (
            "openb",
            OPENB,
            "p,1,1,0,0,,BE,Running,5,2,5",
            "trace:4: created at 5, scheduled at 5, deleted at 2",
        ),
        ("openb", OPENB, "p,1", "trace:4: 2 fields, expected 11"),
        ("swf", SWF, "9 1 1 1 0 -1 -1 -1 60 -1 1 1 1 1 1 1 1 1", "trace:5: no processors"),
        ("swf", SWF, "9 1 1 -1 1 -1 -1 -1 60 -1 1 1 1 1 1 1 1 1", "trace:5: no run time"),
        ("swf", SWF, "9 x", "trace:5: 2 fields, expected 18"),
        (
            "philly",
            PHILLY,
            "2017-13-09 07:01:55,66.0,1,66.0,x",
            "trace:4: '2017-13-09 07:01:55' is not a time",
        ),
        ("philly", PHILLY, "2017-10-09 07:01:55,nan,1,66.0,x", "trace:4: 'nan' is not a number of seconds"),
        ("philly", PHILLY, "2017-10-09 07:01:55,1,0,66.0,x", "trace:4: num_gpus: 0"),
        (
            "recording",
            RECORDING,
            '{"at":"2026-01-01T00:01:00Z","event":"ended","job":"a/z"}',
            "trace:10: 'a/z' ended, but",
        ),
        (
            "recording",
            RECORDING,
            '{"at":"2025-01-01T00:01:00Z","event":"node"}',
            "trace:10: at: 2025-01-01T00:01:00Z is before",
        ),
        ("recording", RECORDING, '{"at"', "trace:10: not an event"),
    ],
)
def test_a_wrong_row_is_counted_and_shown_or_refused(
    tmp_path: Path, format: str, good: str, bad: str, message: str
) -> None:
    jobs, faults = read(tmp_path, good + bad + "\n", format)
    assert len(jobs) == 2
    assert faults.count == 1
    assert faults.summary()[0] == "trace: 1 invalid row was left out:"
    assert faults.summary()[1].startswith(message)
    with pytest.raises(InputError, match=r"^trace:"):
        list(open_trace(tmp_path / "trace", format, TraceProblems("trace", strict=True)))


def test_batsim_names_the_job_that_is_wrong(tmp_path: Path) -> None:
    text = BATSIM.replace('"profile": "p", "res": 1', '"profile": "q", "res": 1').replace(
        '"profile": "p"', '"profile":"q"', 1
    )
    jobs, faults = read(tmp_path, text, "batsim")
    assert len(jobs) == 1
    assert str(faults.examples[0]) == "trace: jobs[0]: profile: 'q' is not among the profiles"


def test_only_the_first_examples_are_kept(tmp_path: Path) -> None:
    _, faults = read(tmp_path, PHILLY + "x,1,1,1,c\n" * 20, "philly")
    assert (faults.count, len(faults.examples)) == (20, 5)
    assert faults.summary()[0] == "trace: 20 invalid rows were left out; the first 5:"


def test_compressed_files_are_read_whatever_their_name(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(gzip.compress(PHILLY.encode()))
    assert len(list(open_trace(path, "philly", TraceProblems("trace")))) == 2


@pytest.mark.parametrize(
    ("content", "format", "message"),
    [
        (gzip.compress(PHILLY.encode() * 99)[:-20], "philly", "cannot be read"),
        (b"a,b\n1,2\n", "philly", "the column 'timestamp' is missing, the header has: a, b"),
        (b"", "philly", "the header has: nothing"),
        (b"[1]", "batsim", "not a Batsim workload"),
        (b'{"jobs": [', "batsim", "not a Batsim workload: the text ends too early"),
        (b'{"profiles": {"p": {"cpu": 1}}}', "batsim", "profile 'p': only profiles with a delay are read"),
        (b"x", "nonsense", "'nonsense' is unknown, expected one of openb, swf, batsim"),
        (b"x", "csv", "needs `columns`"),
    ],
)
def test_a_file_that_is_not_a_trace_is_an_input_error(
    tmp_path: Path, content: bytes, format: str, message: str
) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        list(open_trace(path, format, TraceProblems("trace")))
    assert message in str(caught.value)


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        list(open_trace(tmp_path / "none", "swf", TraceProblems("trace")))


def test_a_file_of_which_no_row_can_be_read_is_refused_and_says_what_was_found(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("when,cpu\n1,2\n")
    with pytest.raises(
        InputError, match=r"(?s)jobs.csv: no row could be read, .* format swf:.*:1: 1 fields, expected 18"
    ):
        list(open_trace(path, "swf", TraceProblems(str(path))))
    path.write_text("")
    assert not list(open_trace(path, "swf", TraceProblems(str(path))))
