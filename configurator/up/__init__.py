"""Starting a deployment on this host: preflight, launch, progress, self-check, stop."""
