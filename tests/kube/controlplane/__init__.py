"""A real control plane on loopback for tests: etcd and kube-apiserver, built from pinned sources and started by pid."""
