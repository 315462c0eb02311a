"""`fairway fleet`: the placer on a real hub. Wiring only: what it connects is in `fleet` and `kube.hub`."""
