"""`python -m operant`: the `operant` command."""

import sys

from operant._command import main

sys.exit(main())
