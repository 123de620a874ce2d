"""The stand-in NetBox of the lab, in four parts: what kinds of object there are, the store, the seed, the two faces."""
