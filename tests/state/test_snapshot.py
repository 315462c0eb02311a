"""What a cycle looks at: the cluster's total, and that looking costs what has changed."""

from fairway.state.snapshot import WorkingCopy, snapshot_of
from fairway.state.tables import CPU
from support import objects as make
from support.engine import state_of


def test_foreign_pods_that_use_more_than_their_node_has_take_nothing_off_the_others():
    foreign = make.pod("f", node="small", cpu=3, spec={"schedulerName": "other"})
    state = state_of(make.node("small", cpu=1), make.node("large", cpu=8), foreign, scheduler_names=["fairway"])
    assert snapshot_of(state).total[CPU] == 8000


def test_what_a_working_copy_writes_stays_in_it_and_is_looked_at_again_once():
    state = state_of(make.node("n1", cpu=4), make.node("n2", cpu=4))
    snapshot = snapshot_of(state)
    copy, row = WorkingCopy(snapshot), state.nodes.rows["n1"]
    copy.write(row)
    copy.idle[CPU, row] -= 1000
    assert snapshot.idle[CPU, row] == 4000
    before = snapshot.touched.end
    snapshot.sync()
    assert snapshot.touched.since(before).tolist() == [row], "columns were computed from the copy"
    end = snapshot.touched.end
    snapshot.sync()
    assert snapshot.touched.end == end, "nothing has changed since, so nothing is looked at"


def test_after_a_trial_the_rows_of_both_copies_are_looked_at_again():
    state = state_of(make.node("n1", cpu=4), make.node("n2", cpu=4), make.node("n3", cpu=4))
    copy, rows = WorkingCopy(snapshot_of(state)), state.nodes.rows
    copy.write(rows["n1"])
    trial = WorkingCopy(snapshot_of(state))
    trial.write(rows["n2"])
    before = copy.touched.end
    copy.resume_after(trial)
    assert sorted(copy.touched.since(before).tolist()) == sorted([rows["n1"], rows["n2"]])
