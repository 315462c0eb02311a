"""The long-running programs, and answers that take more than one call of `decide`."""
