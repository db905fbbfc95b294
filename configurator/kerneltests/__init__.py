"""Self-tests of kernels: programs beside the entries, run by the engine's own Python."""
