"""The entry of `hightide-controller`."""

from typing import NoReturn

from hightide_runtime.missing_extra import run_main


def main() -> NoReturn:
    """Run the command, or say which extra it needs."""
    run_main("hightide-controller", "hightide_controller.main", "server")


if __name__ == "__main__":
    main()
