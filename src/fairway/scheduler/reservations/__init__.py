"""Claims to room: reservations for starving jobs, nominations, and what becomes of both."""
