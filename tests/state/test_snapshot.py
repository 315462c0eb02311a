"""What a cycle looks at: the cluster's total, and that looking costs what has changed."""

from fairway.state.snapshot import snapshot_of
from fairway.state.tables import CPU
from support import objects as make
from support.engine import state_of


def test_foreign_pods_that_use_more_than_their_node_has_take_nothing_off_the_others():
    foreign = make.pod("f", node="small", cpu=3, spec={"schedulerName": "other"})
    state = state_of(make.node("small", cpu=1), make.node("large", cpu=8), foreign, scheduler_names=["fairway"])
    assert snapshot_of(state).total[CPU] == 8000


def test_rows_that_a_session_wrote_to_are_restored_once():
    state = state_of(make.node("n1", cpu=4), make.node("n2", cpu=4))
    snapshot = snapshot_of(state)
    row = state.nodes.rows["n1"]
    snapshot.scratch(row)
    snapshot.idle[CPU, row] -= 1000
    assert list(snapshot.writing()) == [row]
    snapshot.sync()
    assert snapshot.idle[CPU, row] == 4000
    end = snapshot.touched.end
    snapshot.sync()
    assert snapshot.touched.end == end, "nothing has changed since, so nothing is looked at"
    assert snapshot.writing() == {}
