"""The HTTP client of a schema registry, against a server with Confluent's API."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hightide.errors import DeserializationError, InvalidArgumentError, SchemaRegistryError
from hightide.serialization.schema_registry import HttpSchemaRegistry, Schema

SCHEMA = Schema('"string"')


class Registry(ThreadingHTTPServer):
    """Answers as it is told, by path, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, tuple[int, object]] = {}
        self.asked: list[tuple[str, object, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.asked.append((self.path, body, self.headers.get("Authorization")))
        status, answer = self.server.answers.get(self.path, (404, {"error_code": 40401}))
        text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET  # noqa: N815 - http.server calls it

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def server() -> Iterator[Registry]:
    with Registry() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_schema_is_registered_once_under_its_subject(server: Registry) -> None:
    server.answers["/subjects/a%2Fb-value/versions"] = (200, {"id": 7})
    registry = HttpSchemaRegistry(server.url + "/", user="me", password="secret")
    assert [registry.register("a/b-value", SCHEMA) for _ in range(2)] == [7, 7]
    body = {"schema": '"string"', "schemaType": "AVRO"}
    assert server.asked == [("/subjects/a%2Fb-value/versions", body, "Basic bWU6c2VjcmV0")]


def test_who_does_not_register_only_looks_up(server: Registry) -> None:
    server.answers["/subjects/s"] = (200, {"id": 7, "version": 1})
    registry = HttpSchemaRegistry(server.url, registers=False)
    assert registry.register("s", SCHEMA) == 7
    with pytest.raises(SchemaRegistryError, match="does not have this schema of other"):
        registry.register("other", SCHEMA)


def test_a_schema_is_asked_for_once_and_is_avro_where_nothing_else_is_said(server: Registry) -> None:
    server.answers["/schemas/ids/7"] = (200, {"schema": '"string"'})
    server.answers["/schemas/ids/8"] = (200, {"schema": "x", "schemaType": "PROTOBUF"})
    registry = HttpSchemaRegistry(server.url)
    assert [registry.schema_of(7) for _ in range(2)] == [SCHEMA, SCHEMA]
    assert registry.schema_of(8) == Schema("x", "PROTOBUF")
    assert len(server.asked) == 2


def test_an_id_that_the_registry_does_not_know_is_the_records_fault(server: Registry) -> None:
    with pytest.raises(DeserializationError, match="no schema with the id 9"):
        HttpSchemaRegistry(server.url).schema_of(9)


@pytest.mark.parametrize(
    "answer", [(500, {}), (401, {}), (200, b"no json"), (200, []), (200, {}), (200, {"schema": 7})]
)
def test_an_answer_that_is_none_is_the_registrys_fault(server: Registry, answer: tuple[int, object]) -> None:
    server.answers["/schemas/ids/9"] = answer
    with pytest.raises(SchemaRegistryError):
        HttpSchemaRegistry(server.url).schema_of(9)


def test_a_schema_that_refers_to_others_is_told(server: Registry) -> None:
    server.answers["/schemas/ids/9"] = (200, {"schema": "{}", "references": [{"name": "x"}]})
    with pytest.raises(SchemaRegistryError, match="refers to other schemas"):
        HttpSchemaRegistry(server.url).schema_of(9)


def test_a_registry_that_is_not_there_is_told_with_its_address(server: Registry) -> None:
    url = server.url
    server.socket.close()
    with pytest.raises(SchemaRegistryError, match=url):
        HttpSchemaRegistry(url, timeout_s=5).schema_of(9)


def test_only_http_is_spoken() -> None:
    with pytest.raises(InvalidArgumentError, match="http"):
        HttpSchemaRegistry("file:///etc/passwd")
