"""The same work on what people use today: `make bench-peers`.

Each peer is installed from PyPI in an environment of its own, in .venv-peers. A driver, one file here, says how it does
the work through its public API; `harness` runs one piece of work inside that environment and prints JSON, and
`__main__` runs all of it and writes docs/peers.md. Drivers and harness need nothing but their own package."""
