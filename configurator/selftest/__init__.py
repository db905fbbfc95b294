"""The self-test: real engines, healthy and sabotaged, and what is said of them."""
