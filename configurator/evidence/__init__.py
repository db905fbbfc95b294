"""What was observed of a running engine: collecting it, reading it back."""
