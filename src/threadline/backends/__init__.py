"""The doing: where logs are kept. Backends decide nothing; they carry what core decides."""
