"""`python -m threadline`: the command line where the script is not on the path."""

from threadline.cli import main

main(prog_name="threadline")
