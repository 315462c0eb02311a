"""What plugins and the kernel see of nodes: views, labels and taints, pods that are there."""
