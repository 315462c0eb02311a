"""One loop for every world: read what happened, decide, carry out, again. Free of I/O and of clocks.

    world  -- seen, gone, listed, settled, refused -->  store  -- events -->  state
    state  -- decide -->  plan  -- changes -->  store (as sent)  and  world (to be carried out)

A *world* is where changes are carried out: virtual time, the sandbox, an API server. The loop does not know which
one it has.
"""
