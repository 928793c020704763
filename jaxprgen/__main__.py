"""The command line: ``python -m jaxprgen show MODULE:GRAPH``, and `export`, `run`, `info`."""

import sys

import jaxprgen


def main() -> int:
    """Run the command line, and return the exit status."""
    if not sys.flags.safe_path:  # Python looks in the working directory first: look there last.
        sys.path.append(sys.path.pop(0))
    try:
        jaxprgen._prepare()  # pyright: ignore[reportPrivateUsage]
        from jaxprgen.tools.command_line import main

        return main()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            print("error: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
