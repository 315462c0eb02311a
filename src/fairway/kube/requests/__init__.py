"""Each write as a value: its path and body, and what its answers mean (kube.md section 3)."""
