"""`python -m console COMMAND`: the commands of manage.py where there is no checkout, only an installed distribution."""

import sys

from console.launch.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
