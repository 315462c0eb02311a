"""Short ways to ask why a job waits."""

from collections.abc import Iterable

from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.app.explain import Explanation, Situation, explain
from fairway.clock import SECOND, to_datetime
from support.engine import flat, policy
from support.objects import NOW

EXPECTED = "fairway.dev/expected-runtime"


def lasting(span: str) -> dict[str, str]:
    return {EXPECTED: span}


def since(pod: ApiObject, seconds: int) -> ApiObject:
    """The pod has run for so long."""
    assert isinstance(pod, Pod)
    return replace(pod, status=replace(pod.status, start_time=to_datetime(NOW - seconds * SECOND)))


def explained(name: str, *objects: object, with_policy: Policy | None = None) -> Explanation:
    return explain(situation(*objects, with_policy=with_policy), name)


def situation(*objects: object, with_policy: Policy | None = None) -> Situation:
    return Situation(flat(objects), with_policy or policy(), NOW)


def texts(said: Explanation, kind: str | None = None) -> list[str]:
    """What would help, in order."""
    assert said.counterfactual is not None
    return [change.text for change in said.counterfactual.changes if kind is None or change.kind == kind]


def tried(said: Explanation) -> set[str]:
    assert said.counterfactual is not None
    return {trial.text for trial in said.counterfactual.tried if not trial.helped}


def running(pods: Iterable[ApiObject], seconds: int = 0) -> list[ApiObject]:
    return [since(pod, seconds) for pod in pods]
