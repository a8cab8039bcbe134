"""``python -m regard`` is the command ``regard``, for launchers that start modules."""

from regard.cli import main

main()
