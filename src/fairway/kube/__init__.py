"""Everything that talks to an API server: configuration, HTTP, reflectors, and the world that carries out plans.

    API server  -- watches -->  reflectors  -- batches -->  the loop's thread: store, state, decide
    API server  <-- requests --  writers  <-- changes --  the loop's thread

Sockets, the lease and timeouts live on one asyncio thread, state and decisions on another, so that a long cycle costs
neither a watch nor the lease. Nothing is kept on disk: everything that a new leader needs is on the server.

Other packages import from a room (`fairway.kube.http`, `fairway.kube.writing`, ...), never from a module inside one;
`make check` verifies that. There is no surface over all rooms: a command that prints manifests must not import the HTTP
client.
"""
