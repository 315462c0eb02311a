"""Pods as they arrive, change and go. A change is a removal followed by an addition: nothing is patched.

Pods that wait for claims created from templates are indexed by what their requests depend on, so that a change of a
template or claim reaches them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from msgspec.structs import replace

from fairway.api.meta import ObjectMeta
from fairway.api.pods import Pod, PodStatus
from fairway.clock import Micros, from_datetime
from fairway.state import reader
from fairway.state.annotations import HOLD, NONE_UNREAD, UNREAD_IN_GROUPS, UNREAD_OF_CONTROLLERS, USER, kept
from fairway.state.device_requests import device_record
from fairway.state.intake.groups import GroupIntake
from fairway.state.jobs import FINISHED, LEGAL_MOVES, NOWHERE, ON_NODE, WAITING, Job, Task, TaskState, read_nomination
from fairway.state.ledger import TaskLedger
from fairway.state.membership import Belongs, belonging, pod_hints, queue_named, rank_of
from fairway.state.queues import DEFAULT_QUEUE
from fairway.state.shaper import ShapeDraft, Shaper
from fairway.state.tables import ClusterTables
from fairway.state.volumes import claims_of

_NO_LABELS: dict[str, str] = {}
"""One for all pods without labels."""

_IN_PLACE = frozenset({TaskState.PENDING, TaskState.BOUND, TaskState.RUNNING, TaskState.UNKNOWN})
"""States between which a pod can move with nothing else about it changed."""


class PodIntake:
    """Our pods, and those of other schedulers, which use capacity and belong to no queue."""

    def __init__(self, state: ClusterTables, ledger: TaskLedger, shaper: Shaper, groups: GroupIntake) -> None:
        self._state = state
        self._ledger = ledger
        self._shaper = shaper
        self._groups = groups
        self._traits = reader.TraitReader()
        self._with_volumes: dict[str, Pod] = {}
        """Pods that use claims, and have not ended."""

    @cached_property
    def _claiming(self) -> ClaimingPods:
        return ClaimingPods()

    # -- objects ------------------------------------------------------------------------------------------------

    def upsert(self, pod: Pod) -> None:
        """What can be wrong with a pod is found while it is drafted, before anything is changed."""
        key = reader.key_of(pod)
        state = reader.observed_state(pod)
        known = self._state.tasks.get(key)
        if known is not None and state in _IN_PLACE and not known.job.held and _moved_only(known, pod, state):
            self._move(known, pod, state)
            return
        draft = self._shaper.draft(pod)
        self._forget(key)
        self._take(key, pod, state, draft)
        if pod.spec.volumes or key in self._with_volumes:
            self._note_volumes(key, pod)

    def _take(self, key: str, pod: Pod, state: TaskState | None, draft: ShapeDraft) -> None:
        nodes = self._state.nodes
        if self._is_foreign(pod):
            if pod.spec.node_name and state not in FINISHED:
                self._enter_foreign(key, pod, draft)
            return
        job, belongs = belonging(pod)
        if state is TaskState.SUCCEEDED:
            self._learn(job, pod)
        if state is None or (state in FINISHED and belongs is Belongs.ALONE):
            return
        task = self._read(key, pod, job, belongs, draft)
        task.job.tasks.append(task)
        task.record = device_record(pod.metadata.annotations)
        if state is TaskState.PENDING and task.job.held:
            state = TaskState.GATED
        if pod.spec.node_name and state not in FINISHED:
            self._ledger.enter(task, state, nodes.row(pod.spec.node_name))
        elif state is TaskState.PENDING:
            self._groups.enter_waiting(task)
        elif state is TaskState.GATED:
            self._state.gates[key] = reader.gates_of_pod(pod) or (HOLD,)
            self._ledger.enter(task, state, NOWHERE)
        else:
            self._ledger.enter(task, state, NOWHERE)
        if pod.spec.resource_claims and state is TaskState.PENDING:
            self._claiming.note(key, pod)

    def _move(self, task: Task, pod: Pod, state: TaskState) -> None:
        """A pod got its node, or started there: it is counted out of where it was and into where it is. That is by far
        the most frequent change, and reading the pod again would find nothing else.
        """
        self._ledger.leave(task)
        started = pod.status.start_time
        task.started = None if started is None else from_datetime(started)
        task.source = pod
        node = pod.spec.node_name
        self._ledger.enter(task, state, self._state.nodes.row(node) if node else NOWHERE)

    def _learn(self, job: str, pod: Pod) -> None:
        """A pod has succeeded: how long it ran tells how long others of its user and name will."""
        known = self._state.groups.get(job)
        notes = pod.metadata.annotations if known is None else known.annotations or {}
        self._state.history.note(pod, job.split("/", 1)[1], notes.get(USER, ""))

    def delete(self, pod: Pod) -> None:
        """`pod` is its last version: that it has succeeded may be news."""
        key = reader.key_of(pod)
        known = self._state.tasks.get(key)
        if known is not None and known.state not in FINISHED and pod.status.phase == "Succeeded":
            self._learn(belonging(pod)[0], pod)
        self._forget(key)
        if key in self._with_volumes:
            self._note_volumes(key, pod)

    def forget_traits(self) -> None:
        self._traits.clear()

    # -- reading and forgetting ----------------------------------------------------------------------------------

    def _is_foreign(self, pod: Pod) -> bool:
        own_names = self._state.scheduler_names
        return own_names is not None and pod.spec.scheduler_name not in own_names

    def _read(self, key: str, pod: Pod, job: str, belongs: Belongs, draft: ShapeDraft) -> Task:
        state, traits = self._state, self._traits.of(pod)
        stamp = pod.metadata.creation_timestamp
        created = None if stamp is None else from_datetime(stamp)
        task = Task(
            key,
            self._alone(job, pod, created)
            if belongs is Belongs.ALONE
            else self._groups.job(job, pod.metadata.namespace, implicit=belongs is Belongs.CONTROLLER),
            self._shaper.blank,
            priority=pod.spec.priority
            if pod.spec.priority is not None
            else state.priorities.value(traits.priority_class),
            created=created,
            traits=traits,
            labels=pod.metadata.labels or _NO_LABELS,
            source=pod,
        )
        started = pod.status.start_time
        task.started = None if started is None else from_datetime(started)
        state.tasks[key] = task
        unread = NONE_UNREAD
        if belongs is not Belongs.ALONE:
            task.hints = pod_hints(pod)
            self._groups.count_hints(task.job, task.hints, 1)
            if task.hints.indexed:
                task.rank = rank_of(pod, key)
                state.indexed_pods += 1
            unread = UNREAD_IN_GROUPS if belongs is Belongs.GROUP else UNREAD_OF_CONTROLLERS
        state.annotation_problems.read(f"pod {key}", pod.metadata, unread)
        state.priorities.name(traits.priority_class, 1)
        nomination = read_nomination(pod)
        if nomination is not None:
            state.nominations[key] = nomination
        self._give_shape(task, draft)
        return task

    def _give_shape(self, task: Task, draft: ShapeDraft) -> None:
        self._state.terms.enter(task)
        task.shape, new_matches = self._shaper.shape(draft, task.job.namespace, task.labels)
        task.matched = task.shape.matched
        self._rematch_new_terms((term, other) for term, other in new_matches if other is not task)

    def _alone(self, key: str, pod: Pod, created: Micros | None) -> Job:
        namespace, named = pod.metadata.namespace, queue_named(pod.metadata)
        job = Job(key, namespace, named or self._state.namespaces.queue(namespace) or DEFAULT_QUEUE, alone=True)
        job.named_queue = named
        job.created = created
        job.annotations = kept(pod.metadata)
        job.uid = pod.metadata.uid
        known = self._state.reservations
        if known:
            job.reservations = known.records(job) or None
            job.planned, job.overrun = known.planned(job), known.overrun(job)
        return job

    def _forget(self, key: str) -> None:
        state = self._state
        foreign = state.foreign.pop(key, None)
        if foreign is not None:
            self._place_foreign(foreign, -1)
        task = state.tasks.get(key)
        if task is None:
            return
        self._ledger.leave(task)
        del state.tasks[key]
        state.priorities.name(task.traits.priority_class, -1)
        task.job.tasks.remove(task)
        self._groups.suspect_queue(task.job)
        if not task.job.alone:
            self._groups.count_hints(task.job, task.hints, -1)
            state.indexed_pods -= task.hints.indexed
        state.terms.leave(task)
        self._shaper.release(task.shape)
        self._claiming.forget(key)
        state.nominations.pop(key, None)
        state.gates.pop(key, None)
        state.annotation_problems.forget(f"pod {key}")
        self._ledger.mark(task.job)
        if not task.job.tasks and not task.job.group and not task.job.alone:
            del state.groups[task.job.key]

    # -- pods of other schedulers --------------------------------------------------------------------------------

    def _enter_foreign(self, key: str, pod: Pod, draft: ShapeDraft) -> None:
        job = Job(key, pod.metadata.namespace, "", alone=True)
        task = Task(
            key,
            job,
            self._shaper.blank,
            priority=0,
            created=None,
            traits=self._traits.of(pod),
            labels=pod.metadata.labels,
            source=pod,
        )
        self._state.foreign[key] = task
        task.record = device_record(pod.metadata.annotations)
        self._give_shape(task, draft)
        state = reader.observed_state(pod)
        task.become(TaskState.RUNNING if state is None else state)
        task.node = self._state.nodes.row(pod.spec.node_name)
        self._place_foreign(task, 1)

    def _place_foreign(self, task: Task, by: int) -> None:
        nodes = self._state.nodes
        nodes.reach()
        nodes.foreign.add(task.node, task.shape.vector, by)
        nodes.size_generation += 1
        self._ledger.settle(task, by)
        if by < 0:
            self._state.terms.leave(task)
            self._shaper.release(task.shape)

    # -- when what pods rest on changes --------------------------------------------------------------------------

    def _rematch_new_terms(self, tasks: Iterable[tuple[int, Task]]) -> None:
        """A new term matches these tasks: count them where they are, and give those that wait a new shape."""
        for term, task in tasks:
            if task.state in ON_NODE and task.node != NOWHERE:
                self._state.terms.count(term, task.node, 1)
            task.matched = (*task.matched, term)
            if task.state in WAITING and task.key in self._state.tasks:
                task.shape = self._shaper.rematched(task.shape, task.matched)
                self._ledger.mark(task.job)

    def rematch(self, namespace: str) -> None:
        """A namespace's labels changed: terms that select namespaces may mean other pods now."""
        terms = self._state.terms
        if not len(terms):
            return
        for task in list(self._state.pods()):
            if task.job.namespace != namespace:
                continue
            matched = terms.matching(namespace, task.labels)
            if matched == task.matched:
                continue
            placed = task.state in ON_NODE and task.node != NOWHERE
            if placed:
                terms.place(task, -1)
            task.matched = matched
            if placed:
                terms.place(task, 1)
                self._state.nodes.touch(task.node)
            if task.state in WAITING:
                task.shape = self._shaper.rematched(task.shape, matched)
                self._ledger.mark(task.job)

    def claim_changed(self, name: str) -> None:
        """A claim or template of this name (`namespace/name`) is another now, or gone."""
        for pod in self._claiming.of(name):
            self._read_again(pod)

    def volumes_changed(self, claims: set[str] | None) -> None:
        """Pods with these claims (None: with any) may go elsewhere now, or take more or less where they are."""
        if claims is None:
            concerned = list(self._with_volumes)
        else:
            concerned = sorted({key for claim in claims for key in self._state.volumes.pods_with(claim)})
        for key in concerned:
            if key in self._with_volumes:
                self._read_again(self._with_volumes[key])

    def _note_volumes(self, key: str, pod: Pod) -> None:
        """Which claims a pod uses. What pods share has a name in their shapes: the other users of a claim are read
        again when it becomes shared, or is no longer.
        """
        volumes, before = self._state.volumes, self._with_volumes.pop(key, None)
        old = set(claims_of(before)) if before is not None else set()
        task = self._state.tasks.get(key) or self._state.foreign.get(key)
        new = claims_of(pod) if task is not None and task.state not in FINISHED else []
        if new:
            self._with_volumes[key] = pod
        concerned = volumes.leave(key, old.difference(new)) | volumes.enter(key, [c for c in new if c not in old])
        for other in sorted(concerned):
            self._read_again(self._with_volumes[other])

    def hold_changed(self, job: Job) -> None:
        """The job's group holds its pods now, or no longer does."""
        for task in [task for task in job.tasks if task.state in WAITING or task.state is TaskState.GATED]:
            self._read_again(task.source)

    def _read_again(self, pod: Pod) -> None:
        """What a pod rests on has changed: if that makes it impossible to read, it is the pod that is set aside."""
        self._state.aside.take(pod, self.upsert, self.delete)

    def reprioritise(self) -> None:
        """Priority classes changed."""
        for task in self._state.tasks.values():
            if not task.traits.explicit_priority:
                task.priority = self._state.priorities.value(task.traits.priority_class)
            self._ledger.mark(task.job)
        for job in self._state.groups.values():
            self._ledger.mark(job)


def _moved_only(task: Task, pod: Pod, state: TaskState) -> bool:
    """Whether a pod differs from the one that was read last in its node, its phase and what is said of it at most, and
    can have come here from where it was. A pod that cannot is read anew: it may be another one of the same name.
    """
    before = task.source
    spec, known = pod.spec, before.spec
    return (
        task.state in _IN_PLACE
        and (state is task.state or state in LEGAL_MOVES[task.state])
        and not spec.volumes
        and not spec.resource_claims
        and not task.job.reservations
        and _says_nothing_else(pod.status)
        and _says_nothing_else(before.status)
        and (spec is known or spec == replace(known, node_name=spec.node_name))
        and _same_metadata(pod.metadata, before.metadata)
    )


def _says_nothing_else(status: PodStatus) -> bool:
    """Whether a status says nothing of nominations, and nothing of what containers were given."""
    return not (status.nominated_node_name or status.container_statuses or status.init_container_statuses)


def _same_metadata(meta: ObjectMeta, known: ObjectMeta) -> bool:
    """Versions apart."""
    return meta is known or replace(meta, resource_version=known.resource_version) == known


class ClaimingPods:
    """A pod asks by its template as long as the claim that was made for it says the same, so that pods of one template
    are alike. It has to be read again when either changes.
    """

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._of: dict[str, dict[str, None]] = {}
        """Pods by the claim (`namespace/name`), and by the template."""

    def note(self, key: str, pod: Pod) -> None:
        for name in _rests_on(pod):
            self._of.setdefault(name, {})[key] = None
            self._pods[key] = pod

    def forget(self, key: str) -> None:
        pod = self._pods.pop(key, None)
        for name in _rests_on(pod) if pod is not None else ():
            keys = self._of.get(name)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self._of[name]

    def of(self, name: str) -> list[Pod]:
        return [self._pods[key] for key in self._of.get(name, ())]


def _rests_on(pod: Pod) -> Iterator[str]:
    """Claims and templates of one name are not told apart: a pod is only read once too often."""
    namespace = pod.metadata.namespace
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_template_name is not None and (own := made.get(entry.name)):
            yield f"{namespace}/{own}"
            yield f"{namespace}/{entry.resource_claim_template_name}"
