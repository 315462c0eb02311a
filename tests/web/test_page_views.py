"""The views of the demo at one moment: what each says of jobs, queues, nodes and what happened."""

import pytest
from starlette.datastructures import QueryParams
from tools.openapi import demo_shown

from fairway.app.view.mirror import CycleReport
from fairway.app.view.scheduler_page import cycle_times
from fairway.web.answers import ANSWERS
from fairway.web.asking import Asked, RequestRefusedError, Viewer, read_query
from fairway.web.contract import OPERATIONS
from fairway.web.sandbox_page import sandbox_watch
from support.objects import node, pod, queue
from support.sandboxes import after, made

BY_NAME = {operation.name: operation for operation in OPERATIONS}
ALL, VISION = Viewer("you"), Viewer("v", frozenset({"vision"}))


@pytest.fixture(scope="module")
def shown():
    return demo_shown()


def ask(shown, operation, query="", viewer=ALL, **path):
    return ANSWERS[operation](shown, Asked(viewer, path, read_query(BY_NAME[operation], QueryParams(query))))


def test_a_waiting_job_in_full(shown):
    found = ask(shown, "job", job="language/pretrain")
    assert found.job.state == "waiting"
    assert found.sentence.startswith("It waits as number 3 of 3 in queue research, and is starving: 0/6 nodes fit")
    assert [(shape.pods, shape.requests["nvidia.com/gpu"]) for shape in found.shapes] == [(2, 8.0)]
    assert [(pod.state, pod.node) for pod in found.pods] == [("reserved", "gpu-0"), ("reserved", "gpu-1")]
    assert sum(cause.nodes for cause in found.causes) == 6
    lacking = next(cause for cause in found.causes if cause.cause == "insufficient nvidia.com/gpu")
    assert lacking.examples == ["cpu-1"]
    assert all(len(cause.examples) in (0, cause.nodes) for cause in found.causes)
    assert [change.state for change in found.history] == ["submitted", "reserved"]
    assert {entry.state for entry in found.reservations} == {"reserved"}


def test_when_it_starts_and_what_would_start_it_now(shown):
    assert ask(shown, "explanation", job="language/pretrain").explanation.counterfactual.changes
    found = ask(shown, "start", "bounds=true", job="language/pretrain")
    assert found.interval.start == found.forecast.start
    assert found.interval.earliest <= found.interval.start
    assert found.interval.latest is None or found.interval.start <= found.interval.latest
    running = ask(shown, "jobs", "state=running").rows[0].job
    assert ask(shown, "start", "bounds=true", job=running).interval is None


def test_why_it_stands_where_it_stands(shown):
    found = ask(shown, "order", job="language/pretrain").order
    assert (found.position, found.of) == (3, 3)
    assert any(key.decides for key in found.keys)


def test_the_yaml_of_a_job_can_be_applied(shown):
    text = ask(shown, "manifest", job="language/pretrain").yaml
    assert text.count("kind: Pod\n") == 2
    assert "kind: PodGroup" in text


def test_a_default_queue_that_no_object_made_and_nothing_uses_lends_nothing():
    sandbox = after(made(node("n", cpu=4), queue("a"), queue("b"), pod("p", cpu=3, queue="a")), 5)
    loans = sandbox_watch(sandbox).catch_up().queues.loans
    assert [(loan.borrower, loan.lender, loan.amount) for loan in loans if loan.resource == "cpu"] == [("a", "b", 1.0)]
    sandbox.close()


def test_queues_borrow_and_lend_the_same(shown):
    page = ask(shown, "queues")
    for resource in {loan.resource for loan in page.loans}:
        amounts = [amount for queue in page.queues for amount in queue.amounts if amount.resource == resource]
        assert sum(one.lent for one in amounts) == pytest.approx(sum(one.borrowed for one in amounts))
    research = next(queue for queue in page.queues if queue.name == "research")
    assert {space.namespace for space in research.namespaces} == {"language", "vision"}
    assert (research.waiting_jobs, research.running_jobs) == (3, 13)


def test_nodes_as_columns_agree_with_each_node(shown):
    page = ask(shown, "nodes")
    for place, name in enumerate(page.names):
        detail = ask(shown, "node", name=name)
        assert len(detail.pods) == page.pods[place]
        for column in page.columns:
            assert detail.used.get(column.resource, 0) == column.used[place]
            requested = sum(pod.requests.get(column.resource, 0) for pod in detail.pods)
            assert requested == pytest.approx(column.used[place])


def test_what_fits_is_what_is_free_and_not_reserved(shown):
    found = ask(shown, "fit", "pods=2&request=nvidia.com/gpu=2")
    nodes = ask(shown, "nodes")
    column = next(one for one in nodes.columns if one.resource == "nvidia.com/gpu")
    free = [max(0, a - u - r) for a, u, r in zip(column.allocatable, column.used, column.reserved, strict=True)]
    assert found.total_pods == sum(int(one // 2) for one in free)
    assert found.gangs == found.total_pods // 2
    assert sum(found.per_node.values()) == len(nodes.names)
    assert ask(shown, "fit", "request=nosuch=1").total_pods == 0


def test_the_timeline_has_what_runs_is_reserved_and_planned(shown):
    page = ask(shown, "timeline")
    spans = [span for node in page.nodes for span in node.spans]
    assert {span.kind for span in spans} == {"running", "reserved", "planned"}
    assert all(span.end is None or span.end >= span.start for span in spans)
    now = page.end
    assert any(span.end is not None and span.end < now for span in spans), "what ran before is there"
    assert [node.name for node in ask(shown, "timeline", "search=gpu&limit=2").nodes] == ["gpu-0", "gpu-1"]


def test_history_has_waits_and_shares_over_time(shown):
    page = ask(shown, "history")
    assert len(page.utilisation.times) == page.kept.samples > 20
    assert {line.name for line in page.queues.lines} >= {"research", "production"}
    assert sum(group.jobs for group in page.waits_by_size) == sum(group.jobs for group in page.waits_by_namespace) > 20
    queue = ask(shown, "queue_history", "points=5", name="research")
    assert len(queue.allocated.times) == 5
    assert max(value for line in queue.allocated.lines for value in line.values if value is not None) <= 1


def test_the_feed_goes_back_page_by_page(shown):
    first = ask(shown, "feed", "limit=10")
    second = ask(shown, "feed", f"limit=10&before={first.rows[-1].id}")
    assert first.more
    assert first.rows[-1].id > second.rows[0].id
    assert {entry.kind for entry in ask(shown, "feed", "kind=finished&limit=5").rows} == {"finished"}


def test_the_scheduler_says_what_is_in_force(shown):
    page = ask(shown, "scheduler")
    assert page.cycles.count > 50
    assert "reserve" in page.policy.actions
    assert page.objects["Node"] == 6


@pytest.mark.parametrize(
    ("spent", "median", "p99"), [([5], 5, 5), ([9, 8, 3, 1], 3, 9), (range(1, 101), 50, 99), (range(1, 202), 101, 199)]
)
def test_so_many_percent_of_the_cycles_took_no_longer(spent, median, p99):
    found = cycle_times([CycleReport(number, 0, each * 1_000_000) for number, each in enumerate(spent)], len(spent))
    assert (found.median, found.p99) == (median, p99)


def test_a_user_sees_what_is_in_their_namespaces_and_nothing_else(shown):
    assert {row.namespace for row in ask(shown, "jobs", viewer=VISION).rows} == {"vision"}
    for name in ("job", "manifest", "explanation", "start", "order"):
        with pytest.raises(Exception, match="no such job"):
            ask(shown, name, viewer=VISION, job="language/pretrain")
    with pytest.raises(Exception, match="no such job"):
        ask(shown, "explanation", viewer=VISION, job="pretrain")
    pods = [pod.pod for name in ("gpu-2", "cpu-0") for pod in ask(shown, "node", viewer=VISION, name=name).pods]
    assert all(pod.startswith(("vision/", "(")) for pod in pods)
    rows = ask(shown, "reservations", viewer=VISION).rows
    assert rows
    assert "language" not in str(rows)
    spans = [span.job for node in ask(shown, "timeline", viewer=VISION).nodes for span in node.spans]
    assert not any(job.startswith("language/") for job in spans)
    assert all(entry.job.startswith("vision/") for entry in ask(shown, "feed", viewer=VISION).rows)
    with pytest.raises(RequestRefusedError, match="all namespaces"):
        ask(shown, "what_if", viewer=VISION)
    blind = Viewer("b", frozenset(), nodes=False, queues=False)
    for name in ("nodes", "queues", "scheduler", "history", "timeline", "devices", "fit"):
        with pytest.raises(RequestRefusedError, match="may not list"):
            ask(shown, name, viewer=blind)
