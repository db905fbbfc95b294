"""One module a verb; each has a click command named `command` that returns an exit code."""
