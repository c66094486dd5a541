"""``python -m jatpo`` is the same as the command ``jatpo``."""

from jatpo.cli.main import main

if __name__ == "__main__":
    main()
