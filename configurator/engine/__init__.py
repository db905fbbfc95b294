"""What each version of the engine knows: flags, environment variables, names."""
