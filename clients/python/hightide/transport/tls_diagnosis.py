"""Finds out why TLS with an address fails. gRPC says only `Socket closed`, or OpenSSL's name of the error.

It connects once more, by Python's ssl, and looks at what each side refuses. A gRPC server tells a client
nothing of why its certificate is refused: it closes the connection after the handshake. So that certificate
is then checked here, in the way in which a server with the same CA checks it.
"""

import socket
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from hightide.calls.tls_files import TlsFiles
from hightide.errors import InvalidArgumentError, TlsFault
from hightide.transport.tls_loading import load_own_certificate, load_tls

# OpenSSL's names for an answer that is no TLS.
_NO_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"}
)
# X509_V_ERR_… of x509_vfy.h
_EXPIRED: Final = 10
_UNKNOWN_CA: Final = frozenset({2, 18, 19, 20, 21})
_OTHER_HOST: Final = frozenset({62, 64})
# X509_V_FLAG_NO_CHECK_TIME, of which Python has no name.
_NO_CHECK_TIME: Final = 0x200000

_HANDSHAKE_STEPS_MAX: Final = 20

# As ssl's getpeercert() gives it.
Certificate = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TlsFinding:
    """Why TLS fails, as a fault and as sentences with the next step."""

    fault: TlsFault
    text: str


def diagnose(address: str, files: TlsFiles | None, timeout_s: float) -> TlsFinding | None:
    """Find out why a client with these files, or with plaintext, gets no connection. None if TLS is not the
    reason: the address is not reached, does not answer in time, or all is well by now. Blocks; called on a
    thread that may."""
    end_s = time.monotonic() + timeout_s
    try:
        return _of_plaintext(address, end_s) if files is None else _of_tls(address, files, end_s)
    except InvalidArgumentError as error:
        return TlsFinding(TlsFault.FILES, f"{address} is not connected to: {error.message}")
    except (OSError, ValueError):
        # A ValueError is of a host that is no name at all, which gRPC has said already.
        return None


def _of_plaintext(address: str, end_s: float) -> TlsFinding | None:
    context = _unchecking()
    try:
        _connect(address, context, end_s).close()
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            return None
    return TlsFinding(
        TlsFault.TLS_PORT,
        f"{address} uses TLS, and this client does not. Give tls_ca, the certificate of the CA that signed "
        "those of the servers.",
    )


def _of_tls(address: str, files: TlsFiles, end_s: float) -> TlsFinding | None:
    context = load_tls(files).context
    try:
        with _connect(address, context, end_s) as connection:
            if _is_accepted(connection, end_s):
                return None
    except ssl.SSLCertVerificationError as error:
        return _their_certificate(address, files, error, end_s)
    except ssl.SSLError as error:
        reason = error.reason or ""
        if reason in _NO_TLS:
            return TlsFinding(
                TlsFault.PLAINTEXT_PORT,
                f"{address} does not use TLS, and this client does, because of tls_ca. Leave out tls_ca "
                "(and HIGHTIDE_TLS_CA), or take a port that uses TLS.",
            )
        if "ALERT" not in reason:
            return None
        if "VERSION" in reason:
            text = f"{address} and this client have no version of TLS in common: {_words(reason)}."
            return TlsFinding(TlsFault.PROTOCOL, text)
        return _our_certificate(address, files, f"it says: {_words(reason)}")
    return _our_certificate(address, files, "it gives no reason")


def _is_accepted(connection: ssl.SSLSocket, end_s: float) -> bool:
    """Whether the server speaks after the handshake. A server of HTTP/2 speaks first (RFC 9113, 3.4), and in
    TLS 1.3 it looks at the client's certificate after the client has ended its handshake. Raises OSError."""
    connection.settimeout(_left_s(end_s))
    try:
        return bool(connection.recv(1))
    except ConnectionResetError:
        return False


# -- the certificate of the server ---------------------------------------------------------------------------


def _their_certificate(
    address: str, files: TlsFiles, error: ssl.SSLCertVerificationError, end_s: float
) -> TlsFinding:
    host, _ = _host_and_port(address)
    shown = _certificate_at(address, end_s)
    refused = f"{address}: the certificate of the server{_described(shown)} is refused: "
    match error.verify_code:
        case code if code in _UNKNOWN_CA:
            text = f"no CA in {files.ca} has signed it. Give the CA of this cluster as tls_ca."
        case code if code in _OTHER_HOST:
            text = (
                f"it is not for {host}. Connect by a name that it is for, or let it be issued for {host} too."
            )
        case code:
            text = f"{_why(code, error.verify_message, shown)}. Give the server a new one."
    return TlsFinding(TlsFault.SERVER_CERTIFICATE, refused + text)


def _certificate_at(address: str, end_s: float) -> Certificate | None:
    """The certificate that a server shows, whatever is wrong with it; None if it cannot be had. Python reads
    only certificates that it has verified, so the certificate is its own anchor in a second connection. This
    client does not show its own: nobody knows who the server is."""
    try:
        with _connect(address, _unchecking(), end_s) as connection:
            shown = connection.getpeercert(binary_form=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        _anchor(context, shown or b"")
        with _connect(address, context, end_s) as connection:
            return connection.getpeercert()
    except (OSError, ValueError):
        return None


# -- the certificate of this client --------------------------------------------------------------------------


def _our_certificate(address: str, files: TlsFiles, what_it_says: str) -> TlsFinding:
    if files.certificate is None:
        text = (
            f"{address} asks for a certificate of this client ({what_it_says}), and it has none. Give "
            "tls_certificate and tls_key."
        )
        return TlsFinding(TlsFault.CLIENT_CERTIFICATE, text)
    shown = _own_certificate(files)
    refused = f"{address} refuses the certificate of this client, {files.certificate}{_described(shown)}"
    error = _verified_by_own_ca(files)
    match error.verify_code if error is not None else 0:
        case 0:
            text = (
                f": {what_it_says}. By the CA of this client it is valid; let a CA sign it that the server "
                "trusts (its --tls-ca), and look into the log of the server."
            )
        case code if code in _UNKNOWN_CA:
            text = (
                f": {what_it_says}, and no CA in {files.ca} has signed it. Let the CA of the cluster sign it."
            )
        case code:
            message = error.verify_message if error is not None else ""
            text = f": {_why(code, message, shown)}. Give this client a new one."
    return TlsFinding(TlsFault.CLIENT_CERTIFICATE, refused + text)


def _verified_by_own_ca(files: TlsFiles) -> ssl.SSLCertVerificationError | None:
    """The error of a server that trusts this client's CA, None if it would accept this client."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_verify_locations(files.ca)
    try:
        _show_itself(files, server)
    except ssl.SSLCertVerificationError as error:
        return error
    return None


def _own_certificate(files: TlsFiles) -> Certificate | None:
    """This client's certificate, whatever is wrong with it; None if it cannot be read."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        with open(files.certificate or "", encoding="ascii") as file:
            _anchor(server, ssl.PEM_cert_to_DER_cert(_first_certificate(file.read())))
        return _show_itself(files, server).getpeercert()
    except (OSError, ValueError):
        return None


def _first_certificate(pem: str) -> str:
    end = "-----END CERTIFICATE-----"
    return pem[pem.index("-----BEGIN CERTIFICATE-----") : pem.index(end) + len(end)]


def _show_itself(files: TlsFiles, server: ssl.SSLContext) -> ssl.SSLObject:
    """Shake hands in memory, as a client, with a server of this context; returns the server's side. Raises
    ssl.SSLError."""
    server.verify_mode = ssl.CERT_REQUIRED
    client = _unchecking()
    for context in (server, client):
        load_own_certificate(context, files)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for step in range(_HANDSHAKE_STEPS_MAX):
        try:
            ends[step % 2].do_handshake()
        except ssl.SSLWantReadError:
            continue
        if step % 2:
            break
    return ends[1]


# -- both ----------------------------------------------------------------------------------------------------


def _connect(address: str, context: ssl.SSLContext, end_s: float) -> ssl.SSLSocket:
    """Connect and shake hands. Raises OSError, of which ssl.SSLError is one."""
    host, port = _host_and_port(address)
    plain = socket.create_connection((host, port), _left_s(end_s))
    try:
        plain.settimeout(_left_s(end_s))
        return context.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _left_s(end_s: float) -> float:
    """The time that is left. Raises TimeoutError when none is."""
    left_s = end_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the time for a diagnosis is over")
    return left_s


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _unchecking() -> ssl.SSLContext:
    """A context that takes any certificate. It carries nothing but a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


def _anchor(context: ssl.SSLContext, certificate: bytes) -> None:
    """Trust this one certificate, at any time. Raises ssl.SSLError, ValueError."""
    context.load_verify_locations(cadata=certificate)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(_NO_CHECK_TIME)


def _why(code: int, message: str, certificate: Certificate | None) -> str:
    """Why a certificate is refused: OpenSSL's words, or the time at which it expired."""
    if code != _EXPIRED or certificate is None or "notAfter" not in certificate:
        return message
    at = datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notAfter"]), UTC)
    return f"it has expired on {at:%Y-%m-%d at %H:%M} UTC"


def _described(certificate: Certificate | None) -> str:
    """Who a certificate is for, and who issued it."""
    if certificate is None:
        return ""
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    subject = _common_name(certificate.get("subject", ()))
    for_whom = ", ".join(dict.fromkeys([*([subject] if subject else []), *names])) or "nobody"
    issuer = _common_name(certificate.get("issuer", ())) or "an unnamed CA"
    return f" (for {for_whom}; issued by {issuer})"


def _common_name(name: Any) -> str:
    return next((value for part in name for kind, value in part if kind == "commonName"), "")


def _words(reason: str) -> str:
    """OpenSSL's name of an alert as words: TLSV1_ALERT_UNKNOWN_CA is `unknown ca`."""
    return reason.partition("ALERT_")[2].replace("_", " ").lower() or reason
