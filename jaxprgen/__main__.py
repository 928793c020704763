"""The command line: ``python -m jaxprgen show MODULE:GRAPH``, and `export`, `run`, `info`."""

import sys

from jaxprgen.tools.command_line import main

if __name__ == "__main__":
    sys.exit(main())
