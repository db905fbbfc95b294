"""Launch commands that people already have: shell scripts, docker, compose, Kubernetes, systemd."""
