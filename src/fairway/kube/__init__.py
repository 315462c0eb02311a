"""Everything that speaks to an API server: configuration, HTTP, reflectors, and the world that carries plans out.

    API server  -- watches -->  reflectors  -- batches -->  the loop's thread: store, state, decide
    API server  <-- requests --  writers  <-- changes --  the loop's thread

Sockets, the lease and time limits live on one asyncio thread, state and decisions on another, so that a long cycle
costs neither a watch nor the lease. Nothing is kept on disk: what a new leader needs to know is on the server.
"""
