"""Expressions in placement predicates as in Open Cluster Management: its functions, scores, and what triggers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairway.api import fleet as api
from fairway.fleet import FleetState, cel, place
from fleet.fleet_objects import cluster, condition, decide, everywhere, placement, reasons


def expression(*texts: str) -> list[dict[str, Any]]:
    return [{"requiredClusterSelector": {"celSelector": {"celExpressions": list(texts)}}}]


def score(of: str, name: str = "usage", **values: int) -> api.AddOnPlacementScore:
    scores = [{"name": key, "value": value} for key, value in values.items()]
    given = {"metadata": {"name": name, "namespace": of}, "status": {"scores": scores}}
    return msgspec.convert(given, api.AddOnPlacementScore)


def fleet(**versions: str) -> list[api.ManagedCluster]:
    made = []
    for name, version in versions.items():
        found = cluster(name, labels={"version": version, "net": "10.1.0.0/16" if name == "a" else "10.2.0.0/16"})
        made.append(msgspec.structs.replace(found, status=msgspec.structs.replace(found.status)))
    return made


FLEET = fleet(a="1.31.2", b="1.9.0", c="not-a-version")


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ('semver(managedCluster.metadata.labels["version"]).isGreaterThan(semver("1.30.0"))', ("a",)),
        ('managedCluster.metadata.labels["version"].matches("^1\\\\.(30|31)\\\\.")', ("a",)),
        ('managedCluster.metadata.labels["version"].split(".").size() == 3', ("a", "b")),
        ('managedCluster.metadata.labels["version"].find("[0-9]+") == "1"', ("a", "b")),
        ('cidr(managedCluster.metadata.labels["net"]).containsIP("10.1.2.3")', ("a",)),
        ('managedCluster.metadata.?annotations.?team.orValue("none") == "none"', ("a", "b", "c")),
        ('quantity("2Gi").isGreaterThan(quantity("1Gi")) && managedCluster.metadata.name == "b"', ("b",)),
        ('managedCluster.scores("usage").filter(s, s.name == "cpu").all(s, s.value > 10)', ("b",)),
        ('managedCluster.scores("usage").exists(s, s.name == "cpu" && s.value < 10)', ("a",)),
        ("managedCluster.scores('gone') == []", ()),
        ('managedCluster.metadata.annotations["x"].parseJSON().y == 1', ()),
    ],
)
def test_functions_mean_what_they_mean_there(text: str, chosen: tuple[str, ...]) -> None:
    scores = [score("a", cpu=3), score("b", cpu=40)]
    outcome = decide(*FLEET, *scores, placement(predicates=expression(text)))
    assert condition(outcome, "PlacementMisconfigured")[0] == "False"
    assert tuple(sorted(outcome.clusters)) == chosen


def test_a_cluster_without_the_score_says_so() -> None:
    outcome = decide(*FLEET, placement(predicates=expression('managedCluster.scores("usage").size() > 0')))
    assert "there is no AddOnPlacementScore 'usage'" in reasons(outcome)["a"][1]


def test_a_new_score_is_seen_and_one_that_goes_too() -> None:
    wants = placement(predicates=expression('managedCluster.scores("usage").exists(s, s.value > 50)'))
    state = FleetState([*FLEET, *everywhere(), wants])

    def chosen() -> tuple[str, ...]:
        plan = place(state, 0)
        state.apply(plan)
        return tuple(sorted(item.cluster for outcome in plan.outcomes for item in outcome.decisions))

    assert chosen() == ()
    high = score("b", cpu=90)
    state.upsert(high)
    assert chosen() == ("b",)
    state.upsert(score("b", cpu=9))
    assert chosen() == ()
    state.upsert(high)
    assert chosen() == ("b",)
    state.delete(high)
    assert chosen() == ()


def test_a_score_that_is_written_again_as_it_was_concerns_no_placement() -> None:
    wants = placement(predicates=expression('managedCluster.scores("usage").exists(s, s.value > 50)'))
    state = FleetState([*FLEET, *everywhere(), score("a", cpu=1), wants])
    state.apply(place(state, 0))
    state.upsert(score("a", cpu=1))
    assert state.affected(0) == []
    state.upsert(score("a", cpu=2))
    assert state.affected(0) == [("ns", "p")]


def test_an_add_on_score_may_be_weighed_by_name() -> None:
    def weighing(name: str) -> api.Placement:
        listed = [{"name": name, "weight": 10}]
        return placement(numberOfClusters=1, prioritizerPolicy={"mode": "Exact", "configurations": listed})

    scores = [score("a", cpu=1), score("b", cpu=90)]
    assert decide(*FLEET, *scores, weighing("AddOn/usage/cpu")).clusters == ("b",)
    for bad in ("AddOn/usage", "AddOn/usage/cpu/more", "AddOn/usage/"):
        assert condition(decide(*FLEET, *scores, weighing(bad)), "PlacementMisconfigured")[0] == "True", bad


def test_one_point_more_wins_over_any_name() -> None:
    clusters = fleet(**dict.fromkeys("abcdefgh", "1.0.0"))
    scores = [score(name, cpu=11 if name == "h" else 10) for name in "abcdefgh"]
    listed = [{"name": "AddOn/usage/cpu", "weight": 1}]
    wants = placement(numberOfClusters=1, prioritizerPolicy={"mode": "Exact", "configurations": listed})
    assert decide(*clusters, *scores, wants).clusters == ("h",)


def test_reasons_are_of_the_scores_that_were_there_when_the_plan_was_made() -> None:
    wants = placement(predicates=expression('managedCluster.scores("usage").exists(s, s.value > 50)'))
    state = FleetState([*FLEET, *everywhere(), score("a", cpu=1), wants])
    (outcome,) = place(state, 0).outcomes
    state.upsert(score("a", cpu=99))
    assert "gives false" in reasons(outcome)["a"][1]


def test_an_unknown_prioritizer_of_weight_0_is_ignored_with_a_warning() -> None:
    def weighing(weight: int) -> api.Placement:
        listed = [
            {"scoreCoordinate": {"builtIn": "Telepathy"}, "weight": weight},
            {"scoreCoordinate": {"builtIn": "Steady"}},
        ]
        return placement(prioritizerPolicy={"configurations": listed})

    outcome = decide(*FLEET, weighing(0))
    assert condition(outcome, "PlacementMisconfigured")[0] == "False"
    assert len(outcome.clusters) == 3
    assert any("Telepathy" in text and "ignored" in text for text in outcome.rules.warnings)
    assert condition(decide(*FLEET, weighing(1)), "PlacementMisconfigured")[0] == "True"


def test_a_bomb_fails_closed_on_its_own_placement() -> None:
    ten = "[1,2,3,4,5,6,7,8,9,10]"
    bomb = f"{ten}.all(a, {ten}.all(b, {ten}.all(c, {ten}.all(d, {ten}.all(e, true)))))"
    outcome = decide(*FLEET, placement(predicates=expression(bomb)))
    assert outcome.clusters == ()
    assert "costs too much" in condition(outcome, "PlacementMisconfigured")[2]
    outcome = decide(*FLEET, placement(predicates=expression(f'managedCluster.metadata.name == "a" && {bomb}')))
    assert outcome.clusters == ()
    outcome = decide(*FLEET, placement(predicates=expression(f"has(managedCluster.metadata.name) ? {bomb} : true")))
    assert "costs too much" in reasons(outcome)["a"][1]


def test_what_one_cluster_may_cost_is_little_for_there_are_many() -> None:
    """All placements of a hub wait for one that is decided: 10,000 steps are some milliseconds."""
    forty = str(list(range(40)))
    outcome = decide(*FLEET, placement(predicates=expression(f"{forty}.all(a, {forty}.all(b, a + b >= 0))")))
    assert "more than 10000 steps" in condition(outcome, "PlacementMisconfigured")[2]


def _noted(name: str, **notes: str) -> api.ManagedCluster:
    made = cluster(name)
    return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=notes))


GOLD = 'managedCluster.metadata.annotations["tier"] == "gold"'


def _golden(state: FleetState) -> tuple[str, ...]:
    plan = place(state, 0)
    state.apply(plan)
    return tuple(sorted(item.cluster for outcome in plan.outcomes for item in outcome.decisions))


def test_a_change_that_only_expressions_can_see_decides_again() -> None:
    state = FleetState([_noted("a", tier="iron"), _noted("b", tier="gold"), *everywhere()])
    steady = {"mode": "Exact", "configurations": [{"name": "Steady"}]}
    state.upsert(placement(predicates=expression(GOLD), prioritizerPolicy=steady))
    state.upsert(placement("other", prioritizerPolicy=steady))
    assert _golden(state) == ("a", "b", "b")
    state.upsert(_noted("a", tier="gold"))
    assert state.affected(0) == [("ns", "p")]
    assert _golden(state) == ("a", "b")
    newer = _noted("a", tier="gold")
    state.upsert(msgspec.structs.replace(newer, metadata=msgspec.structs.replace(newer.metadata, resource_version="7")))
    assert state.affected(0) == []


def test_a_change_after_which_expressions_say_the_same_leaves_the_decision_as_it_is() -> None:
    """A cluster reports every ten seconds, and an expression may look at any of it."""
    state = FleetState([_noted("a", tier="gold", at="1"), *everywhere(), placement(predicates=expression(GOLD))])
    key = ("ns", "p")
    assert _golden(state) == ("a",)
    state.upsert(_noted("a", tier="gold", at="2"))
    assert state.affected(0) == [key]
    assert not state.is_answered(key)
    state.upsert(_noted("a", tier="gold", at="3"))
    assert 0 < state.answer(key, 10_000) < 10_000
    assert state.is_answered(key)
    assert state.stands(key, 0)
    assert state.affected(0) == []
    state.upsert(_noted("a", tier="iron", at="4"))
    state.answer(key, 10_000)
    assert not state.stands(key, 0)
    assert state.affected(0) == [key]


def test_expressions_are_worked_out_in_parts_and_then_give_what_deciding_gives() -> None:
    clusters = [_noted(f"c{number:02}", tier="gold" if number % 3 else "iron") for number in range(40)]
    groups = [{"groupName": "first", "groupClusterSelector": {"celSelector": {"celExpressions": [f"!({GOLD})"]}}}]
    wants = placement(
        predicates=[*expression(f"{GOLD} || true", "managedCluster.metadata.name != 'c07'"), *expression(GOLD)],
        decisionStrategy={"groupStrategy": {"decisionGroups": groups}},
    )
    state, plain = (FleetState([*clusters, *everywhere(), wants]) for _ in range(2))
    parts = 0
    while not state.is_answered(("ns", "p")):
        assert state.answer(("ns", "p"), 60) > 0
        parts += 1
    assert parts > 20
    (one,), (other,) = place(state, 0).outcomes, place(plain, 0).outcomes
    assert one.slices == other.slices
    assert [len(piece.status.decisions) for piece in one.slices] == [14, 26]
    assert state.is_answered(("ns", "p"))


def test_one_placement_has_few_expressions() -> None:
    """All of them are compiled when it is read."""
    outcome = decide(*FLEET, placement(predicates=expression(*(f"{number} > 0" for number in range(1, 34)))))
    assert condition(outcome, "PlacementMisconfigured")[2] == "there are 33 CEL expressions, expected at most 32"


def test_expressions_that_are_edited_again_and_again_are_not_all_kept() -> None:
    state = FleetState([*FLEET, *everywhere()])
    for number in range(300):
        state.upsert(placement(predicates=expression(f"managedCluster.metadata.name != 'x{number}'")))
        state.apply(place(state, 0))
    assert len(state.pools._answers._columns) < 100
    assert len(state.pools._pools) < 100


def test_reasons_are_those_that_deciding_found_and_cost_no_second_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition says why no cluster matched: a thousand evaluations more, outside of all turns."""
    spent: list[str] = []
    evaluate = cel.evaluate

    def counted(text: str, document: cel.ClusterDocument) -> Any:
        spent.append(text)
        return evaluate(text, document)

    monkeypatch.setattr(cel, "evaluate", counted)
    named = 'managedCluster.metadata.annotations["at"] == "x" && managedCluster.metadata.annotations["none"] == "y"'
    clusters = [_noted(f"c{number:03}", at="x") for number in range(150)]
    outcome = decide(*clusters, placement(predicates=expression(named)))
    assert "150 by Predicate (c000: CEL" in condition(outcome, "PlacementSatisfied")[2]
    assert "fails" in reasons(outcome)["c149"][1]
    assert len(spent) == 150
    each = "managedCluster.metadata.name.parseJSON() == managedCluster.metadata.name.substring(100)"
    odd = decide(*clusters, placement(predicates=expression(each)))
    assert all("CEL" in reasons(odd)[f"c{number:03}"][1] for number in range(150))
