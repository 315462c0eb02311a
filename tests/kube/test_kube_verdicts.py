"""The judges of random stories: each finds what it is there for, in histories that are made up."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kube import verdicts, workload
from kube.history import HistoryEntry
from kube.process import OUT_OF_REACH, RunProcess
from kube.proxy import Asked, Passed
from kube.workload import JOB

GANG = {"g": workload.TestJob("g", 2, 2, "", 1.0), "high": workload.TestJob("high", 1, 1, "", 1.0)}


class MadeUp:
    """What a judge asks a history for."""

    def __init__(self, *entries: HistoryEntry) -> None:
        self._entries = entries

    def entries(self, *kinds: str) -> list[HistoryEntry]:
        return [entry for entry in self._entries if entry.kind in kinds]


def pod(at: float, name: str, job: str, node: str = "", message: str = "") -> HistoryEntry:
    meta: dict[str, Any] = {"name": name, "uid": name, "labels": {JOB: job}}
    status: dict[str, Any] = {"phase": "Running"}
    if message:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        reason = {"type": "DisruptionTarget", "reason": "PreemptionByScheduler", "message": message}
        status["conditions"] = [reason]
    return HistoryEntry(int(at), at, "Pod", {"metadata": meta, "spec": {"nodeName": node}, "status": status}, False)


def node(at: float, name: str, *, cordoned: bool = False) -> HistoryEntry:
    thing = {"metadata": {"name": name, "uid": name}, "spec": {"unschedulable": cordoned}, "status": {}}
    return HistoryEntry(int(at), at, "Node", thing, False)


def evicted(name: str, sent: float, at: float, *, told: bool = True) -> Passed:
    return Passed(Asked("POST", f"/api/v1/namespaces/n/pods/{name}/eviction", False), 201, b"", at, told, 0, sent)


class Answers:
    """What a judge asks a proxy for."""

    def __init__(self, *passed: Passed, asked: Sequence[tuple[float, Asked]] = (), stall: float = 0.0) -> None:
        self.passed = list(passed)
        self.asked = list(asked)
        self._stall = stall

    def stalled_before(self, when: float) -> float:
        return self._stall


def test_a_pod_that_is_evicted_again_after_the_answer_is_found() -> None:
    def judge(*passed: Passed) -> list[str]:
        return verdicts.double_evictions([Answers(*passed)])  # type: ignore[list-item]

    assert judge(evicted("p", 1, 2), evicted("p", 3, 4)) == ["p, 1.0 s after it was told"]
    assert judge(evicted("p", 1, 2, told=False), evicted("p", 3, 4)) == []
    assert judge(evicted("p", 1, 5), evicted("p", 3, 4)) == []  # both were on their way
    assert judge(evicted("p", 1, 2), evicted("q", 3, 4)) == []


def test_more_victims_than_a_job_has_pods_are_found() -> None:
    def judge(*entries: HistoryEntry) -> list[str]:
        return verdicts.excess_victims(MadeUp(*entries), GANG)  # type: ignore[arg-type]

    one = pod(2, "a-0", "a", "n1", "preempt for ns/high: it needs one cpu")
    two = pod(3, "b-0", "b", "n2", "preempt for ns/high: it needs one cpu")
    mate = pod(3, "a-1", "a", "n2", "preempt for ns/high: it needs one cpu")
    nodes = node(1, "n1"), node(1, "n2")
    assert judge(*nodes, one, two) == ["['a', 'b'] for high at 3"]
    assert judge(*nodes, one, mate) == []  # one job, evicted whole
    assert judge(*nodes, one, node(2, "n1", cordoned=True), two) == []


def test_a_gang_is_late_by_the_time_in_which_a_scheduler_ran() -> None:
    history = MadeUp(pod(10, "g-0", "g", "n1"), pod(50, "g-1", "g", "n1"))

    def judge(*lives: tuple[float, float]) -> list[str]:
        return verdicts.late_gangs(history, GANG, lives, 30.0)  # type: ignore[arg-type]

    assert judge((0.0, 60.0)) == ["g was half-bound for 40 s"]
    assert judge((0.0, 20.0), (15.0, 35.0)) == []
    assert judge((0.0, 25.0), (20.0, 45.0)) == ["g was half-bound for 35 s"]


def test_a_write_that_leaves_after_the_deadline_is_found_whatever_became_of_it() -> None:
    lease = Asked("PATCH", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", False)
    write = Asked("POST", "/api/v1/namespaces/n/pods/p/binding", False)

    def renewal(sent: float, holder: str | None, status: int = 200) -> Passed:
        body = json.dumps({"spec": {"holderIdentity": holder}}).encode()
        return Passed(lease, status, body, sent + 0.1, True, 0, sent)

    def judge(at: float, *passed: Passed, stall: float = 0.0) -> list[str]:
        return verdicts.late_sends([Answers(*passed, asked=[(at, write)], stall=stall)], 2.0)  # type: ignore[list-item]

    assert judge(11.9, renewal(10, "a")) == []
    assert judge(13.0, renewal(10, "a")) == ["POST /api/v1/namespaces/n/pods/p/binding, 1.0 s after the deadline"]
    assert judge(13.0, renewal(10, "a"), renewal(12, "a")) == []
    assert judge(13.0, renewal(10, "a"), renewal(12, "b", 409))
    assert judge(11.0, renewal(10, "a"), renewal(10.5, None))  # it was released
    assert judge(9.0, renewal(10, "a"))  # before it was taken
    assert judge(13.0, renewal(10, "a"), stall=1.0) == []  # it may have lain in the proxy


def deleted(at: float, kind: str, name: str) -> HistoryEntry:
    thing = {"metadata": {"name": name, "uid": name}, "spec": {}, "status": {}}
    return HistoryEntry(int(at), at, kind, thing, True)


def acknowledged(method: str, path: str, *, request: object = None, answer: object = None) -> Passed:
    asked = Asked(method, f"/api/v1/namespaces/n/{path}", False)
    return Passed(asked, 201, json.dumps(answer or {}).encode(), 1.0, True, 0, 1.0, json.dumps(request).encode())


def test_an_acknowledged_write_that_no_revision_shows_is_found() -> None:
    def lost(passed: Passed, *entries: HistoryEntry) -> bool:
        history, answers = MadeUp(*entries), Answers(passed)
        elsewhere = verdicts.lost_writes(history, [answers], "other")  # type: ignore[arg-type, list-item]
        assert elsewhere == [], "what another test left is not of this history"
        return bool(verdicts.lost_writes(history, [answers], "n"))  # type: ignore[arg-type, list-item]

    binding = acknowledged("POST", "pods/p/binding", request={"target": {"name": "n1"}})
    assert lost(binding, pod(5, "p", "j"))
    assert lost(binding, pod(5, "p", "j", "n2")), "it is on another node than was acknowledged"
    assert not lost(binding, pod(5, "p", "j", "n1"))
    eviction = acknowledged("POST", "pods/p/eviction")
    assert lost(eviction, pod(5, "p", "j", "n1"))
    assert not lost(eviction, pod(5, "p", "j", "n1", "preempt for ns/high: it needs one cpu"))
    assert not lost(eviction, deleted(6, "Pod", "p"))
    patched = acknowledged("PATCH", "pods/p/status", answer={"metadata": {"name": "p", "resourceVersion": "7"}})
    assert lost(patched, pod(5, "p", "j"), pod(8, "p", "j"))
    assert not lost(patched, pod(5, "p", "j"), pod(7, "p", "j"))
    made = acknowledged("POST", "reservations", answer={"metadata": {"name": "r", "resourceVersion": "7"}})
    assert lost(made, pod(7, "r", "j"))
    assert lost(acknowledged("DELETE", "reservations/r"), deleted(7, "Pod", "r"))
    assert not lost(acknowledged("DELETE", "reservations/r"), deleted(7, "Reservation", "r"))


def test_a_write_under_another_leader_is_found_and_one_that_was_under_way_for_long_is_excused() -> None:
    lease = Asked("PATCH", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", False)
    mine = Passed(lease, 200, json.dumps({"spec": {"holderIdentity": "me"}}).encode(), 1.0, True, 0, 1.0)

    def held(at: int, holder: str) -> HistoryEntry:
        thing = {"metadata": {"name": "l", "uid": "l"}, "spec": {"holderIdentity": holder}}
        return HistoryEntry(at, float(at), "Lease", thing, False)

    history = MadeUp(held(1, "me"), held(5, "other"), pod(7, "p", "j", "n1"))

    def judge(took: float) -> tuple[int, int]:
        write = Asked("POST", "/api/v1/namespaces/n/pods/p/binding", False)
        proxies = [Answers(mine, Passed(write, 201, b"{}", 3.0 + took, True, 0, 3.0))]
        found = verdicts.writes_without_lease(history, proxies, 2.0)  # type: ignore[arg-type]
        return len(found), len(verdicts.excused_writes(history, proxies, 2.0))  # type: ignore[arg-type]

    assert judge(0.1) == (1, 0)
    assert judge(2.5) == (0, 1)


def test_a_scheduler_works_from_when_it_leads_and_has_listed_all(tmp_path: Path) -> None:
    run = RunProcess(tmp_path, "r")
    offset = time.time() - time.monotonic()

    def line(at: float, message: str) -> str:
        return json.dumps({"time": f"{datetime.fromtimestamp(at + offset, UTC).isoformat()}", "message": message})

    ready, leading, not_leading = "all kinds listed", "leading", "not leading"
    said = [(1, leading), (3, ready), (11, ready), (12, leading), (14, not_leading), (15, leading), (16, OUT_OF_REACH)]
    said += [(18, ready), (31, ready)]
    (tmp_path / "r.log").write_text("\n".join(line(at, text) for at, text in said))
    run.lives = [(0.0, 5.0), (10.0, 20.0), (30.0, 40.0)]
    found = [(round(begin), round(end)) for begin, end in run.working()]
    assert found == [(3, 5), (12, 14), (15, 16), (18, 20)]
