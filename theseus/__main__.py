"""`python -m theseus`: the same as the command `theseus`."""

from theseus.cli import main

main()
