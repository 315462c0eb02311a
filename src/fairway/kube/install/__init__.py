"""What is installed in a cluster, as objects: CRDs, access, admission policies, the Deployment. Nothing is applied."""
