"""The sandbox: an embedded cluster and the real scheduler in scaled real time, with no Kubernetes."""
