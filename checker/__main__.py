"""python -m checker: the same as the command `verify`."""

from checker.cli import main

raise SystemExit(main())
