"""`fairway agent`: the node side of devices.

Unmodified device plugins register here as they would with a kubelet. What they offer is published for the scheduler.
When the kubelet prepares a claim, the plugin is asked for exactly the devices that the scheduler chose.

    device plugins --(v1beta1)--> agent --(ResourceSlices, or a node annotation)--> API server
    kubelet --(DRA: prepare, unprepare)--> agent --(Allocate)--> device plugins
                                             +--(CDI specs)--> container runtime
"""
