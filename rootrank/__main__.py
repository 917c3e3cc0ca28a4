"""`python -m rootrank` is the `rootrank` command."""

from rootrank.cli import main

main(prog_name="rootrank")
