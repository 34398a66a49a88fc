"""`grpcurl` for machines that do not have it: calls by `buf curl`, `describe` by reflection itself.

It knows the flags that the pages use, and refuses others.
"""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.rpc.error_details_pb2 import ErrorInfo

_BUF = Path(sys.executable).with_name("buf")
_CURL = (str(_BUF), "curl", "--protocol", "grpc", "--http2-prior-knowledge")
#: grpcurl's flags, and what buf curl calls them. Both take one value.
_WITH_VALUE = {"-d": "-d", "-max-time": "--timeout", "-H": "-H"}


def main(arguments: list[str]) -> int:
    flags: list[str] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        flag = rest.pop(0)
        if flag in {"-plaintext", "-emit-defaults"}:
            flags += ["--emit-defaults"] if flag == "-emit-defaults" else []
        elif flag in _WITH_VALUE:
            value = rest.pop(0)
            value = "@-" if (flag, value) == ("-d", "@") else value
            flags += [_WITH_VALUE[flag], f"{value}s" if flag == "-max-time" else value]
        else:
            print(f"this stand-in for grpcurl does not know {flag}", file=sys.stderr)
            return 2
    address, *asked = rest
    match asked:
        case ["list"]:
            return _call(["--list-services", f"http://{address}"])
        case ["list", service]:
            return _call(["--list-methods", f"http://{address}"], f"{service}/")
        case ["describe", symbol]:
            return _describe(address, symbol)
        case [method] if "/" in method:
            return _call([*flags, f"http://{address}/{method}"])
        case _:
            print(f"this stand-in for grpcurl does not know {' '.join(asked)}", file=sys.stderr)
            return 2


def _call(arguments: list[str], only: str = "") -> int:
    run = subprocess.run([*_CURL, *arguments], capture_output=True, text=True, check=False)
    lines = [line for line in run.stdout.splitlines() if line.startswith(only)] if only else []
    sys.stdout.write("\n".join([line.replace("/", ".") for line in lines] + [""]) if only else run.stdout)
    # buf's exit code is eight times the gRPC status, and its errors are JSON.
    if run.returncode % 8 or run.returncode == 0:
        sys.stderr.write(run.stderr)
        return run.returncode
    _tell(json.loads(run.stderr))
    return 64 + run.returncode // 8


def _tell(error: dict[str, Any]) -> None:
    """An error as grpcurl prints it."""
    code = "".join(word.capitalize() for word in error["code"].split("_"))
    print(f"ERROR:\n  Code: {code}\n  Message: {error.get('message', '')}", file=sys.stderr)
    for number, detail in enumerate(error.get("details", ()), 1):
        info = ErrorInfo.FromString(base64.b64decode(detail["value"] + "=="))
        fields = {"@type": f"type.googleapis.com/{detail['type']}", "domain": info.domain}
        fields |= {"metadata": dict(info.metadata)} if info.metadata else {}
        shown = json.dumps({**fields, "reason": info.reason}, indent=2).replace("\n", "\n    \t")
        print(
            f"  Details:\n  {number})\t{shown}" if number == 1 else f"  {number})\t{shown}", file=sys.stderr
        )


def _describe(address: str, symbol: str) -> int:
    """The comment of a symbol, and its definition's element names."""
    # Here, since calls do not need it, and it takes longer to import than they take.
    import grpc
    from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
    from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

    with grpc.insecure_channel(address) as channel:
        stub = ServerReflectionStub(channel)
        request = ServerReflectionRequest(file_containing_symbol=symbol)
        (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=60)
    for serialised in answer.file_descriptor_response.file_descriptor_proto:
        file = FileDescriptorProto.FromString(serialised)
        for place, name, element in _elements(file):
            if f"{file.package}.{name}" == symbol:
                comments = {
                    tuple(where.path): where.leading_comments for where in file.source_code_info.location
                }
                print("\n".join(f"// {line.strip()}" for line in comments.get(place, "").splitlines()))
                print(element)
                return 0
    print(f"Symbol not found: {symbol}", file=sys.stderr)
    return 1


def _elements(file: FileDescriptorProto) -> list[tuple[tuple[int, ...], str, Any]]:
    """The top-level elements of a file: their paths in its source information, names, and themselves."""
    found: list[tuple[tuple[int, ...], str, Any]] = []
    found += [((4, at), message.name, message) for at, message in enumerate(file.message_type)]
    found += [((5, at), enum.name, enum) for at, enum in enumerate(file.enum_type)]
    found += [((6, at), service.name, service) for at, service in enumerate(file.service)]
    for at, service in enumerate(file.service):
        found += [
            ((6, at, 2, index), f"{service.name}.{method.name}", method)
            for index, method in enumerate(service.method)
        ]
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
