"""Jobs of controllers, gated pods and topology in a sandbox: the same as on files, through time and restarts."""

from pathlib import Path

from fairway.api.policy import parse_policy
from fairway.app.sandbox import commands
from fairway.scheduler.plugins.installed import default_registry
from support.objects import group, node, pod
from support.objects import made as thing
from support.sandboxes import after, made, phases, reopened, running_for, story

MINUTE = running_for("1m")
GANG = {"annotations": {**MINUTE, "fairway.dev/min-available": "2"}}


def test_the_pods_of_a_controller_are_one_job() -> None:
    members = [pod(f"t-{i}", owner="Job/t", cpu=1, **GANG) for i in range(3)]
    sandbox = made(node("n", cpu=2), members)
    after(sandbox, 1)
    assert phases(sandbox)["job/t"] in ("running", "InsufficientResources")
    after(sandbox, 300)
    assert phases(sandbox) == {"job/t": "finished"}
    [done] = sandbox.outcomes(9)
    assert (done.job, done.pods) == ("default/job/t", 3)


def test_more_pods_join_later_and_it_goes_on_after_a_kill(tmp_path: Path) -> None:
    first = [pod("t-0", owner="JobSet/t", cpu=1, **GANG)]
    sandbox = made(node("n", cpu=4), first, path=tmp_path / "s.db")
    after(sandbox, 1)
    assert phases(sandbox) == {"jobset/t": "GangTooFewPods"}
    sandbox.apply([pod("t-1", owner="JobSet/t", cpu=1, **GANG)])
    sandbox = reopened(sandbox)
    after(sandbox, 400)
    assert phases(sandbox) == {"jobset/t": "finished"}


def test_a_gated_pod_starts_when_its_gates_are_taken_off() -> None:
    sandbox = made(node("n", cpu=4), pod("p", cpu=1, gates=["hold"], annotations=MINUTE))
    after(sandbox, 10)
    assert phases(sandbox) == {"p": "SchedulingGated"}
    sandbox.apply([pod("p", cpu=1, annotations=MINUTE)])
    after(sandbox, 200)
    assert phases(sandbox) == {"p": "finished"}


def test_a_gang_in_one_rack_through_time() -> None:
    levels = parse_policy("topology: {levels: [rack]}", "policy", default_registry().catalog)
    nodes = [node(f"{rack}{i}", cpu=1, labels={"rack": rack}) for rack in "ab" for i in range(2)]
    notes = {**MINUTE, "kueue.x-k8s.io/podset-required-topology": "rack"}
    gangs = [
        [group(name, minimum=2), *(pod(f"{name}-{i}", group=name, cpu=1, annotations=notes) for i in range(2))]
        for name in ("g", "h", "k")
    ]
    sandbox = made(nodes, gangs, with_policy=levels)
    after(sandbox, 1)
    assert sorted(phases(sandbox).values()) == ["InsufficientResources", "running", "running"]
    after(sandbox, 400)
    assert set(phases(sandbox).values()) == {"finished"}
    assert len(story(sandbox, "placed")) == 3


def test_it_is_explained_and_deleted_by_its_name() -> None:
    sandbox = made(node("n", cpu=1), [pod(f"t-{i}", owner="Job/t", cpu=1, **GANG) for i in range(2)])
    after(sandbox, 1)
    assert sandbox.explain("job/t").reason == "NeverFits"
    assert sandbox.delete([(commands.JOB, "default", "job/t")])
    after(sandbox, 2)
    assert phases(sandbox) == {}


def test_hyper_nodes_are_kept(tmp_path: Path) -> None:
    network = thing("HyperNode", "s", spec={"tier": 1, "members": []})
    assert reopened(made(node("n", cpu=1), network, path=tmp_path / "s.db")).state.hyper_nodes
