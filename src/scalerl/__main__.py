"""`python -m scalerl` is the `scalerl` command."""

from scalerl.cli.main import main

main()
