"""Run the command line: `python -m configurator`."""

from configurator.cli import main

main()
