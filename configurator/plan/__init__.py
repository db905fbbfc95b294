"""Plans: does a deployment fit, what bounds its decode step, which published figures apply."""
