"""A channel for tests of what is decided about channels, where nothing is to connect."""


class UnconnectedChannel:
    """It knows its address, and its calls go nowhere."""

    def __init__(self, address: str) -> None:
        self.address = address

    def unary_unary(self, *_: object, **__: object) -> str:
        return "method"
