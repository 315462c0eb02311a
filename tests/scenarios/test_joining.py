"""How a pod joins a job and a queue, whoever made it: groups of three kinds, controllers, labels, namespaces."""

import pytest

from fairway.api.policy import parse_policy
from fairway.scheduler.plugins.installed import default_registry
from fairway.scheduler.reservations.objects import reservation_objects
from support import engine
from support import objects as make
from support.contention import reservation
from support.engine import bound, plan, reasons, waiting
from support.objects import group, namespace, node, pod, queue

HELD = {"fairway.dev/hold": "true"}
ROOM = [node("n1", cpu=4), node("n2", cpu=4)]


def owned(name, owner, **more):
    return pod(name, owner=owner, cpu=1, **more)


def jobs(found):
    return {binding.job for binding in found.bindings}


class TestGroups:
    @pytest.mark.parametrize(
        "way",
        [
            {"spec": {"schedulingGroup": {"podGroupName": "g"}}},
            {"annotations": {"scheduling.k8s.io/group-name": "g"}},
            {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
            {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        ],
        ids=["schedulingGroup", "annotation", "label", "newer label"],
    )
    def test_each_way_to_name_a_group(self, way):
        found = plan(ROOM, group("g", minimum=2), [pod(f"p{i}", cpu=1, **way) for i in range(2)])
        assert jobs(found) == {"default/g"}
        alone = plan(ROOM, group("g", minimum=2), pod("p0", cpu=1, **way))
        assert reasons(alone) == {"g": "GangTooFewPods"}

    def test_the_first_way_counts(self):
        both = pod(
            "p",
            cpu=1,
            spec={"schedulingGroup": {"podGroupName": "a"}},
            annotations={"scheduling.k8s.io/group-name": "b"},
            labels={"pod-group.scheduling.sigs.k8s.io": "c"},
            owner="Job/d",
        )
        assert jobs(plan(ROOM, group("a"), group("b"), group("c"), both)) == {"default/a"}


class TestControllers:
    def test_pods_of_one_job_are_one_job(self):
        found = plan([node("n", cpu=2)], [owned(f"train-{i}", "Job/train") for i in range(3)])
        assert jobs(found) == {"default/job/train"}
        assert len(found.bindings) == 2
        left = waiting(found)["job/train"]
        assert (left.reason, left.ready, left.minimum, left.waiting) == ("InsufficientResources", 2, 1, 1)

    def test_the_gang_size_stands_on_the_pod_as_label_or_annotation(self):
        note = {"fairway.dev/min-available": "3"}
        for where in ("annotations", "labels"):
            found = plan([node("n", cpu=2)], [owned(f"t-{i}", "PyTorchJob/t", **{where: note}) for i in range(3)])
            assert bound(found) == {}
            assert waiting(found)["pytorchjob/t"].minimum == 3

    def test_pods_that_disagree_make_the_largest_gang(self):
        pods = [owned(f"t-{i}", "Job/t", annotations={"fairway.dev/min-available": str(i + 1)}) for i in range(3)]
        assert waiting(plan([node("n", cpu=2)], pods))["job/t"].minimum == 3

    def test_a_gang_size_that_is_none_is_named(self):
        found = plan(ROOM, owned("t", "Job/t", annotations={"fairway.dev/min-available": "all"}))
        assert jobs(found) == {"default/job/t"}
        assert any("fairway.dev/min-available 'all' is not a number of pods: counted as 1" in w for w in found.warnings)

    @pytest.mark.parametrize(
        ("owner", "labels", "job"),
        [
            ("Job/set-workers-0", {"jobset.sigs.k8s.io/jobset-name": "set"}, "jobset/set"),
            ("RayCluster/ray", {"ray.io/cluster": "ray"}, "raycluster/ray"),
            ("StatefulSet/lws-0", {"leaderworkerset.sigs.k8s.io/name": "lws"}, "leaderworkerset/lws"),
            ("Pod/driver", {"sparkoperator.k8s.io/app-name": "pi"}, "sparkapplication/pi"),
            ("MPIJob/mpi", {"training.kubeflow.org/job-name": "mpi"}, "mpijob/mpi"),
            (
                "Job/mpi-launcher",
                {
                    "training.kubeflow.org/job-name": "mpi",
                    "training.kubeflow.org/operator-name": "mpijob-controller",
                },
                "mpijob/mpi",
            ),
            ("PyTorchJob/t", {"training.kubeflow.org/job-name": "t"}, "pytorchjob/t"),
        ],
    )
    def test_the_topmost_known_controller_names_the_job(self, owner, labels, job):
        assert jobs(plan(ROOM, owned("p", owner, labels=labels))) == {f"default/{job}"}

    @pytest.mark.parametrize("owner", ["ReplicaSet/web-5d", "DaemonSet/agent", "Node/n1"])
    def test_pods_of_services_are_jobs_of_their_own(self, owner):
        assert jobs(plan(ROOM, owned("p", owner), owned("q", owner))) == {"default/p", "default/q"}

    def test_no_other_job_can_have_the_same_key(self):
        found = plan(
            ROOM,
            group("t"),
            pod("t-0", group="t", cpu=1),
            pod("t", cpu=1),
            owned("t-1", "Job/t"),
            owned("t-2", "PyTorchJob/t"),
        )
        assert jobs(found) == {"default/t", "default/job/t", "default/pytorchjob/t"}

    def test_it_is_as_old_as_its_oldest_pod(self):
        pods = [
            owned("old-0", "Job/old", created=5),
            owned("old-1", "Job/old", created=1),
            pod("lone", cpu=1, created=3),
        ]
        assert engine.order(plan([node("n", cpu=1)], pods)) == ["old-0"]

    def test_what_has_succeeded_counts_towards_the_gang(self):
        note = {"annotations": {"fairway.dev/min-available": "2"}}
        ended = owned("t-0", "Job/t", node="n1", phase="Succeeded", **note)
        assert bound(plan(ROOM, ended, owned("t-1", "Job/t", **note))) == {"t-1": "n1"}

    def test_best_effort_members_are_placed_with_their_job(self):
        note = {"annotations": {"fairway.dev/min-available": "2"}}
        pods = [pod("t-0", owner="Job/t", **note), owned("t-1", "Job/t", **note)]
        assert set(bound(plan(ROOM, pods, policy=engine.policy(actions="allocate")))) == {"t-0", "t-1"}

    def test_its_reservation_is_carried_to_the_next_cycle(self):
        note = {"annotations": {"fairway.dev/min-available": "2"}, "created": 0}
        busy = [pod("b1", node="n1", cpu=3), pod("b2", node="n2", cpu=3)]
        members = [pod(f"t-{i}", owner="Job/t", cpu=4, **note) for i in range(2)]
        reserving = engine.policy(actions="enqueue, reserve, allocate", plugins=engine.PLUGINS)
        starving = parse_policy(
            "actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 60, reservedNodePercent: 100}}, "
            "allocate]",
            "policy",
            default_registry().catalog,
        )
        state = engine.state_of(ROOM, busy, members)
        assert not engine.decided(state, reserving).reservations, "not yet starving"
        made = engine.decided(state, starving).reservations
        assert {entry.node for entry in made} == {"n1", "n2"}
        [(key, thing)] = reservation_objects(made).items()
        assert key == ("default", "controller-job-t")
        state.upsert([thing])
        again = engine.decided(state, starving)
        assert [entry.since for entry in again.reservations] == [entry.since for entry in made]
        assert again.warnings == ()


class TestQueues:
    QUEUES = (queue("q"), queue("r"))

    def placed_in(self, *objects):
        found = plan(ROOM, self.QUEUES, *objects)
        return [entry.name for entry in found.queues if entry.allocated["cpu"] != "0"]

    @pytest.mark.parametrize(
        "name", ["fairway.dev/queue", "kueue.x-k8s.io/queue-name", "scheduling.volcano.sh/queue-name"]
    )
    @pytest.mark.parametrize("where", ["labels", "annotations"])
    def test_label_or_annotation_of_the_pod(self, name, where):
        assert self.placed_in(pod("p", cpu=1, **{where: {name: "q"}})) == ["q"]
        assert self.placed_in(owned("p", "Job/t", **{where: {name: "q"}})) == ["q"]

    def test_fairway_s_own_name_comes_first(self):
        labels = {"kueue.x-k8s.io/queue-name": "r", "fairway.dev/queue": "q"}
        assert self.placed_in(pod("p", cpu=1, labels=labels)) == ["q"]

    def test_the_group_comes_before_the_pod_and_the_pod_before_the_namespace(self):
        member = pod("p", group="g", cpu=1, labels={"fairway.dev/queue": "r"})
        team = namespace("default", **{"fairway.dev/queue": "q"})
        assert self.placed_in(team, group("g", queue="q"), member) == ["q"]
        assert self.placed_in(team, group("g", queue=""), member) == ["r"]
        assert self.placed_in(team, pod("p", cpu=1)) == ["q"]
        assert self.placed_in(team, owned("p", "Job/t")) == ["q"]
        assert self.placed_in(team, pod("p", cpu=1, queue="r")) == ["r"]

    def test_a_namespace_that_changes_moves_its_jobs(self):
        state = engine.state_of(ROOM, self.QUEUES, pod("p", cpu=1), pod("runs", node="n1", cpu=1), owned("t", "Job/t"))
        for name in ("q", "r"):
            state.upsert([namespace("default", **{"fairway.dev/queue": name})])
            found = engine.decided(state)
            assert {entry.name: entry.allocated["cpu"] for entry in found.queues}[name] == "3"
        state.upsert([namespace("default")])
        assert {entry.name: entry.allocated["cpu"] for entry in engine.decided(state).queues}["default"] == "3"


class TestGates:
    def test_a_gated_pod_waits_with_its_reason(self):
        found = plan(ROOM, pod("p", cpu=1, gates=["team.example/quota"]))
        assert bound(found) == {}
        seen = waiting(found)["p"]
        assert (seen.reason, seen.waiting) == ("SchedulingGated", 1)
        assert seen.message == "1 pod has scheduling gates: team.example/quota"

    def test_a_gang_waits_for_its_gated_members(self):
        members = [pod(f"g-{i}", group="g", cpu=1, gates=["hold"] * (i > 0)) for i in range(3)]
        seen = waiting(plan(ROOM, group("g", minimum=3), members))["g"]
        assert seen.reason == "SchedulingGated"
        assert seen.message == "has 1 of its minimum of 3 pods; 2 pods have scheduling gates: hold"

    def test_gates_above_the_minimum_hold_no_job_up(self):
        members = [pod(f"g-{i}", group="g", cpu=1, gates=["hold"] * (i > 1)) for i in range(3)]
        found = plan(ROOM, group("g", minimum=2), members)
        assert set(bound(found)) == {"g-0", "g-1"}
        state = engine.state_of(ROOM, group("g", minimum=1), pod("g-0", group="g", node="n1", cpu=1), members[2])
        assert reasons(engine.decided(state)) == {"g": "SchedulingGated"}

    def test_once_the_gates_are_gone_it_is_placed(self):
        state = engine.state_of(ROOM, pod("p", cpu=1, gates=["hold"]))
        assert bound(engine.decided(state)) == {}
        state.upsert([pod("p", cpu=1)])
        assert bound(engine.decided(state)) == {"p": "n1"}

    def test_a_gated_pod_asks_for_no_share(self):
        found = plan(ROOM, queue("q"), pod("p", cpu=4, queue="q", gates=["hold"]), pod("r", cpu=1))
        assert {entry.name: entry.requested.get("cpu", "0") for entry in found.queues}["q"] == "0"

    def test_a_closed_queue_is_the_first_reason(self):
        found = plan(ROOM, queue("q", state="Closed"), make.pod("p", cpu=1, queue="q", gates=["hold"]))
        assert reasons(found) == {"p": "QueueClosed"}


class TestHolds:
    """`fairway.dev/hold` on pods that exist, where a gate could not be set any more."""

    def test_a_held_pod_waits_until_it_is_released(self):
        state = engine.state_of(ROOM, pod("p", cpu=1, annotations=HELD))
        found = engine.decided(state)
        assert (bound(found), waiting(found)["p"].reason) == ({}, "SchedulingGated")
        assert waiting(found)["p"].message == "1 pod is held (annotation fairway.dev/hold)"
        state.upsert([pod("p", cpu=1, annotations={"fairway.dev/hold": "false"})])
        assert bound(engine.decided(state)) == {"p": "n1"}

    def test_a_group_holds_its_pods_those_that_come_too(self):
        members = [pod(f"g-{i}", group="g", cpu=1) for i in range(2)]
        state = engine.state_of(ROOM, group("g", minimum=2), members)
        state.upsert([group("g", minimum=2, annotations=HELD), pod("g-2", group="g", cpu=1)])
        found = engine.decided(state)
        assert (bound(found), waiting(found)["g"].reason) == ({}, "SchedulingGated")
        assert waiting(found)["g"].message == "it is held (annotation fairway.dev/hold of PodGroup default/g)"
        state.upsert([group("g", minimum=2)])
        assert set(bound(engine.decided(state))) == {"g-0", "g-1", "g-2"}

    def test_pods_on_nodes_stay_there(self):
        placed = pod("g-0", group="g", node="n1", cpu=1)
        state = engine.state_of(ROOM, group("g", annotations=HELD), placed, pod("g-1", group="g", cpu=1))
        found = engine.decided(state)
        assert (bound(found), found.evictions) == ({}, ())
        assert [task.node >= 0 for task in state.groups["default/g"].tasks] == [True, False]

    def test_a_held_group_without_pods_is_not_admitted(self):
        state = engine.state_of(ROOM, group("g", phase="Pending", annotations=HELD))
        assert reasons(engine.decided(state)) == {"g": "SchedulingGated"}
        state.upsert([group("g", phase="Pending")])
        assert reasons(engine.decided(state)) != {"g": "SchedulingGated"}

    def test_what_it_had_reserved_goes_to_others(self):
        """The nodes of a held job are not kept for it."""
        state = engine.state_of(
            make.node("n1", cpu=4), pod("p", cpu=4, annotations=HELD), reservation(pod("p"), ("p", "n1", "reserved"))
        )
        state.upsert([pod("q", cpu=3)])
        assert bound(engine.decided(state)) == {"q": "n1"}

    def test_another_text_holds_nothing_and_is_said(self):
        found = plan(ROOM, pod("p", cpu=1, annotations={"fairway.dev/hold": "yes"}))
        assert bound(found) == {"p": "n1"}
        assert any("fairway.dev/hold 'yes' holds no pod" in one for one in found.warnings)
