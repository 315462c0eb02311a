"""What a server has, listed and watched: from bytes to objects in the loop's store (spec K1 to K4)."""
