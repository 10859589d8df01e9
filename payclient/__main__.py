"""`python -m payclient`, the same as the command `payclient`."""

import sys

if __name__ == "__main__":
    try:
        from payclient.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("payclient: interrupted\n")
        sys.exit(130)
    sys.exit(main())
