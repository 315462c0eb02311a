"""What is shown to users, made from objects, state and plan: the same for the terminal, HTTP and the page."""
