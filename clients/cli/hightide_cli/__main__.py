"""The entry of `hightide`."""

from typing import NoReturn

from hightide_runtime.missing_extra import run_main


def main() -> NoReturn:
    """Run the command, or say which extra it needs."""
    run_main("hightide", "hightide_cli.main", "cli")


if __name__ == "__main__":
    main()
