"""What one plan, with every action, does to a job: it evicts pods or binds pods, whatever the order of input."""

from random import Random

from hypothesis import HealthCheck, given, settings

from fairway.clock import SECOND
from fairway.scheduler.decide import decide
from support.contended import SEEDS
from support.effort import examples
from support.engine import state_of
from support.every_action import clusters, policies
from support.objects import BEGIN
from support.world import World

some = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@some
@given(clusters(), policies())
def test_no_plan_evicts_one_pod_of_a_job_and_binds_another(objects, policy):
    world = World(objects, policy=policy)
    for second in range(8):
        world.now = second
        world.pass_time()
        plan = decide(world.state, policy, BEGIN + second * SECOND)
        jobs = {key: task.job for key, task in world.state.tasks.items()}
        evicted = {jobs[entry.pod].identity for entry in plan.evictions}
        bound = {jobs[entry.pod].identity for entry in plan.bindings}
        assert not evicted & bound
        world.carry_out(plan)


@some
@given(clusters(), policies(), SEEDS)
def test_the_evictions_of_a_plan_do_not_depend_on_the_order_of_input(objects, policy, seed):
    shuffled = list(objects)
    Random(seed).shuffle(shuffled)
    now = BEGIN + 60 * SECOND
    first, second = (decide(state_of(given_), policy, now) for given_ in (objects, shuffled))
    assert first.evictions == second.evictions
    assert first.nominations == second.nominations
