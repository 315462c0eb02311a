"""View models for users, made from objects, state and plan, for the terminal, the API, the page and reports."""
