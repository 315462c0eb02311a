"""`fairway run`: the scheduler on a real cluster. Wiring only: what it connects is in `drive` and `kube`."""
