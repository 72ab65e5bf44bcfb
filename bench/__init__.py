"""Speed, as ratios beside bare SQLite in one run: `make bench`. A number here is never a test: machines are noisy."""
