"""`python -m payclient`, the same as the command `payclient`."""

import sys

from payclient.cli import main

if __name__ == "__main__":
    sys.exit(main())
