"""The healthcheck of the images: one gRPC health check, without gRPC's library, in no time."""

import asyncio
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hightide_local.certificates import CertificateAuthority
from hightide_runtime.addresses import HostPort
from hightide_runtime.probe import NotServing, check
from hightide_runtime.serving.server import Server, serve
from hightide_runtime.tls.files import ServerTls, TlsFiles


def with_server(test: Callable[[Server], Awaitable[None]]) -> None:
    async def run() -> None:
        server = await serve(HostPort("127.0.0.1", 0), [])
        try:
            await test(server)
        finally:
            await server.stop(0)

    asyncio.run(run())


def probe(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hightide_runtime.probe", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_server_counts_as_well_from_when_it_says_that_it_serves() -> None:
    async def test(server: Server) -> None:
        before = await asyncio.to_thread(probe, str(server.address))
        await server.set_serving(True)
        after = await asyncio.to_thread(probe, str(server.address))
        assert (before.returncode, before.stderr) == (1, f"{server.address} says that it is NOT_SERVING\n")
        assert (after.returncode, after.stdout, after.stderr) == (0, "", "")

    with_server(test)


def test_a_server_with_tls_is_asked_with_its_own_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = CertificateAuthority.create(tmp_path).issue("broker/1", ["kite"], tmp_path)
    tls = ServerTls(TlsFiles(files.certificate, files.key, files.ca))

    async def run() -> None:
        server = await serve(HostPort("127.0.0.1", 0), [], tls=tls)
        try:
            await server.set_serving(True)
            look = ("--tls-of", "HIGHTIDE_BROKER", str(server.address))
            assert (await asyncio.to_thread(probe, *look)).returncode == 1, "in plaintext it is refused"
            monkeypatch.setenv("HIGHTIDE_BROKER_TLS_CERTIFICATE", str(files.certificate))
            monkeypatch.setenv("HIGHTIDE_BROKER_TLS_KEY", str(files.key))
            monkeypatch.setenv("HIGHTIDE_BROKER_TLS_CA", str(files.ca))
            served = await asyncio.to_thread(probe, *look)
            assert (served.returncode, served.stderr) == (0, "")
            files.ca.unlink()
            broken = await asyncio.to_thread(probe, *look)
            assert broken.returncode == 1
            assert "ca.crt" in broken.stderr
        finally:
            await server.stop(0)

    asyncio.run(run())


def test_a_look_takes_little_of_the_processor() -> None:
    """Every container does it every few seconds; gRPC's library alone takes longer to load."""

    async def test(server: Server) -> None:
        await server.set_serving(True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(3):
            assert (await asyncio.to_thread(probe, str(server.address))).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert spent_s / 3 < 0.4

    with_server(test)


def test_nobody_there_is_told_with_the_address() -> None:
    # Bound, so that nobody else comes to listen there meanwhile.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        run = probe(address)
    assert (run.returncode, run.stderr) == (1, f"{address} cannot be asked: Connection refused\n")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "answers more than a health check can be|closed the connection",
        ),
        (b"", "closed the connection; is it a gRPC server"),
        (b"\xff\xff\xff\x00\x00\x00\x00\x00\x00", "answers more than a health check can be"),
        (b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + bytes(8), "answered the call with an error"),
        (b"\x00\x00\x05\x00\x00\x00\x00\x00\x01" + bytes(5), "says that it is UNKNOWN"),
    ],
    ids=["http/1", "nothing", "endless", "goaway", "empty message"],
)
def test_whatever_answers_something_else_does_not_count_as_serving(
    answer: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hightide_runtime.probe.PATIENCE_S", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve_once() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve_once)
        thread.start()
        with pytest.raises(NotServing, match=why):
            check(HostPort("127.0.0.1", listening.getsockname()[1]))
        thread.join()


@pytest.mark.parametrize("arguments", [(), ("nonsense",)])
def test_wrong_usage_is_told_and_is_another_exit_code(arguments: tuple[str, ...]) -> None:
    run = probe(*arguments)
    assert run.returncode == 2
    assert "usage: python -m hightide_runtime.probe" in run.stderr


def test_watching_tells_each_change() -> None:
    async def test(server: Server) -> None:
        command = [sys.executable, "-m", "hightide_runtime.probe", "--watch", str(server.address)]
        watching = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        assert watching.stdout is not None
        first = await asyncio.wait_for(watching.stdout.readline(), 60)
        await server.set_serving(True)
        second = await asyncio.wait_for(watching.stdout.readline(), 60)
        watching.kill()
        await watching.wait()
        assert first.decode() == f"{server.address} says that it is NOT_SERVING\n"
        assert second.decode() == f"{server.address} serves\n"

    with_server(test)
