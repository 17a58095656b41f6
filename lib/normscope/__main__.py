"""``python -m normscope`` is the ``normscope`` command, and so is the installed script."""

import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C is one line from the first import on."""
    try:
        from normscope import cli  # noqa: PLC0415 - takes long enough to be interrupted

        cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("normscope: interrupted\n")
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
