"""An object that cannot be taken in is named for as long as it is so, and no longer."""

from fairway.api.kinds import key
from fairway.state.aside import SHOWN, SetAside
from support import objects as make

NODE = make.node("n1", cpu=1)


def refuse(thing):
    raise ValueError(f"{thing.metadata.name} is odd\nsecond line")


def accept(thing):
    return "taken"


def drop(thing):
    return "dropped"


def test_it_is_named_until_it_changes_to_something_that_can_be_taken_in():
    aside = SetAside()
    assert aside.take(NODE, refuse, drop) == "dropped"
    assert aside.warnings() == ["node n1 is set aside: n1 is odd"]
    assert aside.take(make.node("n2"), accept, drop) == "taken"
    assert aside.error(key(NODE)) == "n1 is odd"
    assert aside.take(NODE, accept, drop) == "taken"
    assert (len(aside), aside.error(key(NODE)), aside.warnings()) == (0, "", [])


def test_it_is_named_until_it_is_gone():
    aside = SetAside()
    aside.take(NODE, refuse, drop)
    aside.forget(lambda: key(make.node("n2")))
    assert len(aside) == 1
    aside.forget(lambda: key(NODE))
    assert aside.warnings() == []


def test_the_first_are_named_and_the_rest_are_counted():
    aside = SetAside()
    for i in range(SHOWN):
        aside.take(make.node(f"n{i:02d}"), refuse, drop)
    assert len(aside.warnings()) == SHOWN
    aside.take(make.pod("p", "team"), refuse, drop)
    aside.take(make.pod("q", "team"), refuse, drop)
    assert aside.warnings()[-1] == "2 more objects are set aside"
