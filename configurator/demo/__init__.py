"""The demo: recordings of a healthy and a sabotaged server, and a server that replays them."""
