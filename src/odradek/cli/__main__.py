"""`python -m odradek.cli`, for where the script is not on the path."""

from odradek.cli.main import main

main()
