"""What a connection may bring instead of calls: bytes that are no HTTP/2, and HTTP/2 that no client speaks.

Each attack is a function of a seeded `Random` and gives the bytes to send, in pieces. All are bounded: some
hundred kilobytes a connection.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM, END_HEADERS, ACK = 0x1, 0x4, 0x1
_FLOOD: Final = 3_000
_PATHS: Final = (
    b"/hightide.v1.BrokerService/Produce",
    b"/hightide.v1.BrokerService/GetMetadata",
    b"/hightide.v1.ControllerService/DescribeCluster",
    b"/hightide.v1.CoordinatorService/RegisterConsumer",
    b"/grpc.health.v1.Health/Watch",
    b"/",
    b"/x",
)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"", length: int | None = None) -> bytes:
    """A frame (RFC 9113, section 4.1); `length` is another one than the payload has."""
    told = len(payload) if length is None else length
    return struct.pack(">I", told)[1:] + struct.pack(">BBI", kind, flags, stream & 0xFFFFFFFF) + payload


def literal(name: bytes, value: bytes, first: int = 0x00) -> bytes:
    """A header field that is spelt out (RFC 7541, section 6.2); `first` 0x40 also puts it into the table."""
    return bytes([first]) + _length(name) + name + _length(value) + value


def _length(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes([len(text)])
    left, encoded = len(text) - 127, bytearray([127])
    while left >= 128:
        encoded.append(left % 128 | 128)
        left //= 128
    encoded.append(left)
    return bytes(encoded)


def request_headers(path: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """The header block of a gRPC call."""
    fields = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        *more,
    )
    return b"".join(literal(name, value) for name, value in fields)


def hello() -> bytes:
    """How a well-behaved connection begins."""
    return PREFACE + frame(SETTINGS, 0, 0)


def _random_bytes(chance: Random) -> Iterator[bytes]:
    yield chance.randbytes(chance.choice((1, 9, 24, 1_000, 100_000)))


def _preface_and_random_bytes(chance: Random) -> Iterator[bytes]:
    yield PREFACE + chance.randbytes(chance.choice((1, 9, 1_000, 100_000)))


def _random_frames(chance: Random) -> Iterator[bytes]:
    yield hello()
    for _ in range(200):
        payload = chance.randbytes(chance.choice((0, 1, 4, 5, 6, 8, 64, 2_000)))
        stream = chance.choice((0, 1, 2, 3, 5, 0x7FFFFFFF, 0xFFFFFFFF))
        yield frame(chance.randrange(16), chance.randrange(256), stream, payload)


def _wrong_lengths(chance: Random) -> Iterator[bytes]:
    yield hello()
    kind = chance.choice((DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, 200))
    length = chance.choice((0, 1, 3, 5, 7, 9, 16_385, 2**24 - 1))
    yield frame(kind, 0, chance.choice((0, 1)), chance.randbytes(min(length, 50_000)), length)


def _settings_flood(chance: Random) -> Iterator[bytes]:
    yield hello()
    setting = struct.pack(
        ">HI", chance.choice((1, 2, 3, 4, 5, 6, 0xFFFF)), chance.choice((0, 1, 2**31, 2**32 - 1))
    )
    for _ in range(_FLOOD // 100):
        yield frame(SETTINGS, 0, 0, setting * chance.choice((1, 10))) * 100


def _ping_flood(chance: Random) -> Iterator[bytes]:
    yield hello()
    for _ in range(_FLOOD // 100):
        yield frame(PING, chance.choice((0, ACK)), 0, chance.randbytes(8)) * 100


def _rapid_reset(chance: Random) -> Iterator[bytes]:
    """CVE-2023-44487: calls that are cancelled at once."""
    yield hello()
    block = request_headers(chance.choice(_PATHS))
    for stream in range(1, 2 * _FLOOD, 2):
        yield frame(HEADERS, END_HEADERS, stream, block) + frame(RST_STREAM, 0, stream, struct.pack(">I", 8))


def _half_sent_calls(chance: Random) -> Iterator[bytes]:
    yield hello()
    block = request_headers(chance.choice(_PATHS))
    for stream in range(1, 1_000, 2):
        yield frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, 0, stream, b"\0\0\0\1\0half")


def _continuation_flood(chance: Random) -> Iterator[bytes]:
    """CVE-2024-27316: a header block that never ends."""
    yield hello()
    yield frame(HEADERS, 0, 1, request_headers(chance.choice(_PATHS)))
    for number in range(_FLOOD):
        yield frame(CONTINUATION, 0, 1, literal(b"x-%d" % number, b"y" * 100))


def _header_bomb(chance: Random) -> Iterator[bytes]:
    yield hello()
    size = chance.choice((8_000, 16_000))
    block = request_headers(chance.choice(_PATHS), (b"x-bomb", b"b" * size))
    yield frame(HEADERS, 0, 1, block[:16_000])
    rest = block[16_000:] + literal(b"x-more", b"c" * 15_000)
    for at in range(0, len(rest), 16_000):
        yield frame(CONTINUATION, 0, 1, rest[at : at + 16_000])
    yield frame(CONTINUATION, END_HEADERS, 1)


def _table_bomb(chance: Random) -> Iterator[bytes]:
    """One large field in the table of headers, named thousands of times (RFC 7541, section 7.3)."""
    yield hello()
    block = request_headers(chance.choice(_PATHS)) + literal(b"x-bomb", b"b" * 3_900, 0x40)
    yield frame(HEADERS, 0, 1, block)
    for _ in range(20):
        yield frame(CONTINUATION, 0, 1, b"\xbe" * 10_000)
    yield frame(CONTINUATION, END_HEADERS | END_STREAM, 1)


def _broken_tables(chance: Random) -> Iterator[bytes]:
    yield hello()
    block = chance.choice(
        (b"\xff" * 20, b"\x80", b"\x3f\xff\xff\xff\xff\x0f", b"\xc0", chance.randbytes(300))
    )
    yield frame(HEADERS, END_HEADERS, 1, block)


def _window_games(chance: Random) -> Iterator[bytes]:
    yield PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, chance.choice((0, 1, 2**31 - 1, 2**32 - 1))))
    block = request_headers(chance.choice(_PATHS))
    for stream in range(1, 200, 2):
        yield frame(HEADERS, END_HEADERS, stream, block)
        yield frame(DATA, END_STREAM, stream, b"\0\0\0\0\0")
        more = chance.choice((0, 1, 2**31 - 1))
        yield frame(WINDOW_UPDATE, 0, chance.choice((0, stream)), struct.pack(">I", more))


def _lying_messages(chance: Random) -> Iterator[bytes]:
    """A call whose message is longer, shorter or compressed otherwise than it says."""
    yield hello()
    block = request_headers(
        chance.choice(_PATHS), (b"grpc-encoding", chance.choice((b"gzip", b"deflate", b"x")))
    )
    yield frame(HEADERS, END_HEADERS, 1, block)
    told = struct.pack(">BI", chance.choice((0, 1, 255)), chance.choice((0, 5, 2**31, 2**32 - 1)))
    yield frame(
        DATA, chance.choice((0, END_STREAM)), 1, told + chance.randbytes(chance.choice((0, 4, 6, 9_000)))
    )


def _strange_timeouts(chance: Random) -> Iterator[bytes]:
    yield hello()
    for stream in range(1, 80, 2):
        timeout = chance.choice((b"", b"0n", b"-1S", b"99999999H", b"999999999H", b"1x", b"S", b"\xff"))
        yield frame(
            HEADERS, END_HEADERS, stream, request_headers(chance.choice(_PATHS), (b"grpc-timeout", timeout))
        )
        yield frame(DATA, END_STREAM, stream, b"\0\0\0\0\0")


def _empty_frames(chance: Random) -> Iterator[bytes]:
    """CVE-2019-9518: frames without anything in them."""
    yield hello()
    yield frame(HEADERS, END_HEADERS, 1, request_headers(chance.choice(_PATHS)))
    for _ in range(_FLOOD // 100):
        yield frame(DATA, 0, 1) * 100


def _broken_order(chance: Random) -> Iterator[bytes]:
    """Frames where the state of a stream allows none."""
    yield hello()
    block = request_headers(chance.choice(_PATHS))
    kinds = [
        frame(HEADERS, END_HEADERS | END_STREAM, 5, block),
        frame(HEADERS, END_HEADERS, 3, block),
        frame(HEADERS, END_HEADERS, 2, block),
        frame(DATA, END_STREAM, 5, b"\0\0\0\0\0"),
        frame(DATA, 0, 99, b"late"),
        frame(PRIORITY, 0, 5, struct.pack(">IB", 5, 255)),
        frame(PUSH_PROMISE, END_HEADERS, 5, struct.pack(">I", 6) + block),
        frame(GOAWAY, 0, 0, struct.pack(">II", 0, 11) + b"enhance your calm"),
        frame(RST_STREAM, 0, 77, struct.pack(">I", 2)),
        frame(SETTINGS, ACK, 0),
    ]
    chance.shuffle(kinds)
    yield from kinds


def _http1(chance: Random) -> Iterator[bytes]:
    verb = chance.choice((b"GET", b"POST", b"HEAD", b"DELETE", b"G\0T"))
    path = chance.choice((b"/", b"/metrics", b"/../../etc/passwd", b"/" + b"a" * 70_000, b"/%00%ff"))
    yield verb + b" " + path + b" HTTP/1." + chance.choice((b"0", b"1", b"9", b"x")) + b"\r\n"
    for number in range(chance.choice((1, 300))):
        yield b"X-%d: " % number + b"y" * chance.choice((1, 500)) + b"\r\n"
    length = chance.choice((b"0", b"-1", b"99999999999999999999", b"x"))
    yield b"Content-Length: " + length + b"\r\n" + chance.choice((b"\r\n", b"\r\nbody", b""))


def _half_a_tls_hello(chance: Random) -> Iterator[bytes]:
    body = b"\3\3" + chance.randbytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + chance.randbytes(40)
    handshake = b"\1" + struct.pack(">I", chance.choice((len(body), 2**24 - 1)))[1:] + body
    record = b"\x16\3\1" + struct.pack(">H", chance.choice((len(handshake), 0, 2**14, 65_535))) + handshake
    yield record[: chance.randrange(1, len(record) + 1)]


def _nothing(chance: Random) -> Iterator[bytes]:
    yield b""


ATTACKS: Final[dict[str, Callable[[Random], Iterator[bytes]]]] = {
    "random bytes": _random_bytes,
    "preface, random bytes": _preface_and_random_bytes,
    "random frames": _random_frames,
    "wrong frame lengths": _wrong_lengths,
    "SETTINGS flood": _settings_flood,
    "PING flood": _ping_flood,
    "rapid reset": _rapid_reset,
    "half-sent calls": _half_sent_calls,
    "CONTINUATION flood": _continuation_flood,
    "header bomb": _header_bomb,
    "header table bomb": _table_bomb,
    "broken header tables": _broken_tables,
    "window games": _window_games,
    "lying messages": _lying_messages,
    "strange timeouts": _strange_timeouts,
    "empty frames": _empty_frames,
    "broken order": _broken_order,
    "HTTP/1": _http1,
    "half a TLS hello": _half_a_tls_hello,
    "nothing": _nothing,
}
