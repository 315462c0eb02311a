"""Rules that the other tests let a mistake pass in: each of these fails if its rule is turned off."""

from fairway.clock import SECOND
from fairway.scheduler.decide import decide_and_explain
from support import objects as make
from support.engine import bound, plan, policy, state_of, waiting

ZONE = "zone"
SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "x"}},
}


def spread_gang(name, created):
    return make.gang(
        name, members=2, created=created, cpu=2, labels={"app": "x"}, spec={"topologySpreadConstraints": [SPREAD]}
    )


def test_room_under_topology_spread_can_grow_within_a_cycle():
    """A pod that evens out the zones makes room for a gang like one that had found none."""
    made = plan(
        make.node("a", labels={ZONE: "a"}, cpu=20),
        make.node("b", labels={ZONE: "b"}, cpu=1),
        spread_gang("early", 0),
        make.pod("evens", created=1, cpu=1, labels={"app": "x"}, spec={"nodeSelector": {ZONE: "b"}}),
        spread_gang("late", 2),
    )
    assert bound(made) == {"evens": "b", "late-0": "a", "late-1": "a"}
    assert set(waiting(made)) == {"early"}


def lost_part(ready_at):
    """A gang of two that was whole until `ready_at`; one of its pods runs, the other waits again."""
    group = make.made(
        "PodGroup",
        "g",
        "default",
        metadata={"creationTimestamp": make.at(0)},
        spec={"minMember": 2},
        status={
            "phase": "Running",
            "conditions": [{"type": "Scheduled", "status": "True", "lastTransitionTime": make.at(ready_at)}],
        },
    )
    pods = [make.pod("g-0", group="g", node="n", cpu=1), make.pod("g-1", group="g", cpu=4)]
    others = [make.pod("o", node="m", cpu=2), make.node("m", cpu=4)]
    return state_of(make.node("n", cpu=4), group, pods, others)


def test_a_gang_that_lost_part_of_its_minimum_waits_since_it_was_last_whole():
    reserving = policy(actions="enqueue, reserve, allocate, backfill")
    threshold = 172_800
    for since, starving in ((threshold, False), (threshold + 1, True)):
        found = decide_and_explain(lost_part(1000), reserving, make.BEGIN + (1000 + since) * SECOND)
        assert waiting(found)["g"].starving is starving, since
        assert waiting(found)["g"].ready == 1
        assert [entry.node for entry in found.reservations] == (["m"] if starving else [])
