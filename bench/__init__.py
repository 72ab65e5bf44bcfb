"""Speed, as ratios beside the least that the engine allows, in one run: `make bench`.

Every module here that has `WORKLOADS` is run: functions of (folder, entries of the largest log) that yield `Found`, and
`Curve` for what grows. A new file is found by itself. A number here is never a test: machines are noisy."""
