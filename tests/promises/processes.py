"""Real processes for tests: those of the torture."""

from torture.processes import at_once, exit_code, fork

__all__ = ["at_once", "exit_code", "fork"]
