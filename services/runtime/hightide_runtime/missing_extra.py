"""The start of a command that is installed with every `hightide`, also without the packages that it needs.

This module and the `__main__` modules that use it import nothing that an extra brings.
"""

import sys
from importlib import import_module
from typing import NoReturn


def run_main(command: str, module: str, extra: str) -> NoReturn:
    """Run `main` of this module. Exits with 1 and one sentence if a package is missing that the extra
    brings."""
    try:
        main = import_module(module).main
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0].startswith("hightide"):
            raise
        sys.exit(f"{command} needs the package {error.name}: pip install 'hightide[{extra}]'")
    sys.exit(main())
