"""A cluster in virtual time: the second driver of `decide`, for trying a policy before it is trusted."""
