"""The command line as a module: `python -m graphrf`."""

from graphrf.cli import main

if __name__ == "__main__":
    main()
