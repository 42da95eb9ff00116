"""python -m sm90_verify: the same as the command `verify`."""

from sm90_verify.cli.main import main

raise SystemExit(main())
