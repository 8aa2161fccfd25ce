"""Prints a column of the table as JSON: python -m tests.vm.guest.try_all URL IMAGE PODMAN-COMMAND..."""

import json
import sys
from functools import partial

from tests.vm.guest.bench import Bench, run
from tests.vm.guest.operations import column

if __name__ == "__main__":
    url, image, *command = sys.argv[1:]
    print(json.dumps(column(Bench(url, partial(run, *command), image))))
