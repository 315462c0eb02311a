"""How writes leave: which is next, how many at once, and the world that carries plans out with them."""
