"""`python -m threadline.cli` is `threadline`."""

from threadline.cli import main

main(prog_name="threadline")
