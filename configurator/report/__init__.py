"""Findings and verdicts as text for people and JSON for programs."""
