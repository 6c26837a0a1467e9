"""``python -m featuregate`` is the command line, where no script is installed."""

import sys

from featuregate.cli.script import featuregate

if __name__ == "__main__":
    sys.exit(featuregate())
