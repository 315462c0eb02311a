"""Random small clusters, with everything that decides who is placed where."""

from typing import Any

from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from support import engine
from support import objects as make
from support.objects import expression

NAMESPACES = ("a", "b", "c")
ZONES = (None, "x", "y")
TAINTS = (
    "old:NoSchedule",
    "old:PreferNoSchedule",
    "gpu=true:NoSchedule",
    "node-role.kubernetes.io/control-plane:NoSchedule",
)

sometimes = st.sampled_from((False, False, False, True))
seldom = st.sampled_from((False,) * 9 + (True,))


@st.composite
def nodes(draw: st.DrawFn, least: int = 1, most: int = 5) -> list[ApiObject]:
    return [draw(node(f"n{i}")) for i in range(draw(st.integers(least, most)))]


@st.composite
def node(draw: st.DrawFn, name: str) -> ApiObject:
    zone = draw(st.sampled_from(ZONES))
    amounts: dict[str, Any] = {"cpu": draw(st.integers(2, 8)), "memory": f"{draw(st.integers(2, 8))}Gi"}
    if draw(seldom):
        amounts[draw(st.sampled_from(("cpu", "memory")))] = 0
    if draw(sometimes):
        amounts["gpu"] = draw(st.integers(0, 2))
    if draw(sometimes):
        amounts["pods"] = draw(st.integers(0, 4))
    return make.node(
        name,
        labels={"zone": zone} if zone else {},
        taints=draw(st.lists(st.sampled_from(TAINTS), unique=True, max_size=2)) if draw(sometimes) else (),
        unschedulable=draw(seldom),
        ready=not draw(seldom),
        **amounts,
    )


@st.composite
def queues(draw: st.DrawFn, most: int = 4) -> list[ApiObject]:
    names = [f"q{i}" for i in range(draw(st.integers(0, most)))]
    return [draw(queue(name, names[:i])) for i, name in enumerate(names)]


@st.composite
def queue(draw: st.DrawFn, name: str, parents: list[str]) -> ApiObject:
    capability = draw(limits) if draw(sometimes) else {}
    guarantee = draw(limits) if draw(sometimes) else {}
    for dimension in capability.keys() & guarantee.keys():
        guarantee[dimension] = min(guarantee[dimension], capability[dimension])
    guarantee.pop("pods", None)
    return make.queue(
        name,
        draw(st.integers(1, 4)),
        capability=capability,
        guarantee=guarantee,
        deserved={"cpu": draw(st.integers(0, 6))} if draw(seldom) and "cpu" not in capability else {},
        parent=draw(st.sampled_from(parents)) if parents and draw(sometimes) else "",
        state="Closed" if draw(seldom) else "",
        priority=draw(st.integers(0, 1)) if draw(seldom) else 0,
        created=draw(st.none() | st.integers(0, 2)),
    )


limits = st.dictionaries(st.sampled_from(("cpu", "pods")), st.integers(0, 8), max_size=2)


@st.composite
def templates(draw: st.DrawFn) -> dict[str, Any]:
    """What pods of one kind have in common."""
    app = draw(st.sampled_from(("web", "db")))
    labels = {"app": app, "tier": draw(st.sampled_from(("x", "y")))}
    template: dict[str, Any] = {"labels": labels, "spec": draw(rules())}
    cpu = draw(st.sampled_from((None, "500m", "1", "1", "2", "3")))
    if cpu:
        template["cpu"] = cpu
    if draw(st.booleans()):
        template["memory"] = draw(st.sampled_from(("512Mi", "1Gi", "2Gi")))
    if draw(seldom):
        template["gpu"] = 1
    if draw(seldom):
        template["ports"] = [draw(st.sampled_from((80, 81)))]
    if draw(sometimes):
        template["role"] = draw(st.sampled_from(("driver", "worker")))
    return template


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if draw(seldom):
        spec["nodeSelector"] = {"zone": draw(st.sampled_from(("x", "y")))}
    if draw(seldom):
        spec["tolerations"] = [{"key": "old", "operator": "Exists"}]
    kind = draw(st.sampled_from(("none",) * 8 + ("apart", "apart", "together", "spread", "affinity")))
    key, app = draw(st.sampled_from((make.HOST, "zone"))), draw(st.sampled_from(("web", "db")))
    if kind == "apart":
        spec |= make.anti_affinity(key, app=app)
    elif kind == "together":
        spec |= make.affinity(key, app=app)
        if draw(seldom):
            other = make.affinity(draw(st.sampled_from((make.HOST, "zone"))), tier=draw(st.sampled_from(("x", "y"))))
            spec = make.both_affinities(spec, other)
    elif kind == "spread":
        spec |= make.spread(key, skew=draw(st.integers(1, 2)), app=app)
    elif kind == "affinity":
        operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")))
        values = ("x",) if operator in ("In", "NotIn") else ()
        spec |= make.node_affinity([expression("zone", operator, *values)])
    if draw(seldom):
        spec["priority"] = draw(st.integers(0, 2))
    return spec


@st.composite
def jobs(draw: st.DrawFn, node_names: list[str], queue_names: list[str], most: int = 9) -> list[ApiObject]:
    """Gangs and lone pods, some of whose pods run, leave or have ended. A few kinds of pods only: many are alike."""
    kinds = draw(st.lists(templates(), min_size=1, max_size=3))
    found: list[ApiObject] = []
    for index in range(draw(st.integers(1, most))):
        found += draw(job(f"j{index}", kinds, node_names, queue_names))
    return found


@st.composite
def job(
    draw: st.DrawFn, name: str, kinds: list[dict[str, Any]], node_names: list[str], queue_names: list[str]
) -> list[ApiObject]:
    namespace = draw(st.sampled_from(NAMESPACES))
    queue_name = draw(st.sampled_from((*queue_names, "default")))
    created = draw(st.none() | st.integers(0, 2))
    if draw(st.booleans()):
        kind = draw(st.sampled_from(kinds))
        return [draw(one_pod(name, namespace, kind, node_names, queue=queue_name, created=created))]
    members = draw(st.integers(1, 5))
    own = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=2))
    more: dict[str, Any] = {"group": name}
    if draw(sometimes):
        more = {
            "owner": f"Job/{name}",
            "annotations": {"fairway.dev/min-available": str(draw(st.integers(1, members)))},
        }
        if draw(st.booleans()):
            more["labels"] = {"fairway.dev/queue": queue_name}
    pods = [
        draw(one_pod(f"{name}-{i}", namespace, own[i % len(own)], node_names, created=created, **more))
        for i in range(members)
    ]
    if draw(seldom) or "owner" in more:
        return pods
    roles = {"driver": draw(st.integers(0, 2))} if draw(seldom) else {}
    group = make.group(
        name,
        namespace,
        minimum=members + 1 if draw(seldom) else draw(st.integers(0, members)),
        queue=queue_name,
        created=created,
        phase=draw(st.sampled_from(("", "", "Inqueue"))),
        roles=roles,
        resources={"cpu": draw(st.integers(0, 4))} if draw(seldom) else None,
    )
    return [group, *pods]


@st.composite
def one_pod(
    draw: st.DrawFn, name: str, namespace: str, kind: dict[str, Any], node_names: list[str], **more: Any
) -> ApiObject:
    if node_names and draw(sometimes):
        more["node"] = draw(st.sampled_from(node_names))
        more["phase"] = draw(st.sampled_from(("Running",) * 5 + ("Pending", "Succeeded", "Failed", "Unknown")))
        more["leaving"] = draw(seldom)
    elif draw(seldom):
        more["gates"] = ["hold"]
    labels = {**kind.get("labels", {}), **more.pop("labels", {})}
    return make.pod(name, namespace, **{**kind, "labels": labels}, **more)


@st.composite
def clusters(draw: st.DrawFn) -> list[ApiObject]:
    """A whole cluster, its objects in no particular order."""
    made_nodes = draw(nodes())
    made_queues = draw(queues())
    quotas = [make.quota(name, draw(st.integers(1, 3))) for name in NAMESPACES if draw(st.booleans())]
    names = [node.metadata.name for node in made_nodes]
    inner = {queue.spec.parent for queue in made_queues}
    leaves = [queue.metadata.name for queue in made_queues if draw(seldom) or queue.metadata.name not in inner]
    made_jobs = draw(jobs(names, leaves))
    return [*made_nodes, *made_queues, *quotas, *made_jobs]


@st.composite
def policies(draw: st.DrawFn, actions: tuple[str, ...] = ("enqueue, allocate, backfill",)) -> Policy:
    """Policies of allocation: ways to share, to order and to score."""
    arguments: dict[str, dict[str, Any]] = {"priority": {}, "gang": {}, "predicates": {}}
    arguments["drf"] = {"priorityFirst": draw(sometimes)}
    if draw(sometimes):
        arguments["capacity"] = {}
    else:
        arguments["proportion"] = {"lending": draw(st.sampled_from(("default", "default", "none")))}
    if draw(st.booleans()):
        arguments["nodeorder"] = {
            "leastAllocated": draw(st.integers(0, 2)),
            "mostAllocated": draw(st.integers(0, 2)),
            "balancedAllocation": draw(st.integers(0, 1)),
        }
    if draw(st.booleans()):
        arguments["binpack"] = {"resources": {make.GPU: draw(st.integers(0, 3))}}
    return engine.policy(actions=draw(st.sampled_from(actions)), plugins=(), **arguments)
