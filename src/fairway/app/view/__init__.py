"""What people look at, made from the objects, the state and the plan: the same for the terminal, HTTP and the page."""
