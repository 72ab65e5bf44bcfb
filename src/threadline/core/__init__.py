"""The thinking: pure functions from values to values. No disk, no clock, no randomness."""
