"""``python -m featuregate`` is the command line, where no script is installed."""

import sys

from featuregate.cli import main

if __name__ == "__main__":
    sys.exit(main())
