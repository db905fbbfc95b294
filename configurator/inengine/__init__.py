"""What runs inside the engine, and how it gets there."""
