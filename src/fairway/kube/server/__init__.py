"""Which API server, and as whom: kubeconfig files, a pod's own files, and identities that change."""
