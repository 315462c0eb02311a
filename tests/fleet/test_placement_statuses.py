"""What is written to the status of a Placement: our conditions, and those of others as they were."""

import json

import msgspec

from fairway.api.fleet import Placement
from fairway.api.meta import Condition
from fairway.kube.hub.placements import placement_status, placement_write

VERSION = "cluster.open-cluster-management.io/v1beta1"
FOREIGN = {
    "type": "example.com/Reviewed",
    "status": "True",
    "reason": "Fine",
    "message": "by a person",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 7,
}


def test_conditions_of_others_stay_as_they_are():
    read = {"metadata": {"name": "p", "namespace": "a", "uid": "u"}, "status": {"conditions": [FOREIGN]}}
    placement = msgspec.convert(read, Placement)
    wanted = placement_status(VERSION, [Condition("PlacementSatisfied", "True", "All", "all")], ())
    write = placement_write(VERSION, placement, wanted, 1_000_000)
    for request in (write.request, write.or_else):
        assert request is not None
        assert request.body is not None
        conditions = json.loads(request.body)["status"]["conditions"]
        assert conditions[0] == FOREIGN
        assert [one["type"] for one in conditions] == ["example.com/Reviewed", "PlacementSatisfied"]
        assert "observedGeneration" not in conditions[1]
