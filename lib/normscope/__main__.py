"""``python -m normscope`` is the ``normscope`` command."""

from normscope.cli import main

if __name__ == "__main__":
    main()
