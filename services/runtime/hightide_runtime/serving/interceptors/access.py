"""Refuses calls that the rule of their method forbids, and writes the audit log.

The rules are in `hightide_runtime.access.rules`, the lines in `hightide_runtime.access.audit`.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.access.audit import AuditedCall, AuditLog
from hightide_runtime.access.principals import current_caller
from hightide_runtime.access.rules import AccessRule, rule_of
from hightide_runtime.access.subjects import subjects_of
from hightide_runtime.errors import ServiceError, abort, reason_of
from hightide_runtime.serving.interceptors.errors import error_told
from hightide_runtime.serving.interceptors.interceptor import Context, Method, StreamCall, UnaryCall
from hightide_runtime.serving.listeners import Listener
from hightide_runtime.telemetry.trace_context import current_traceparent, trace_id_of


class AccessInterceptor:
    """The access to one listener. It stands outside of the parsing, so that a refusal costs next to nothing.

    The external listener serves only what its clients need. It refuses the rest with NOT_AUTHORIZED. This
    says more than gRPC's UNIMPLEMENTED for a method that is not registered: the method exists, and a process
    that calls it here has the wrong address.
    """

    def __init__(self, listener: Listener, audit: AuditLog) -> None:
        self._listener = listener
        self._audit = audit

    def around_unary(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap a method with one response. Nothing is put around one that this listener serves."""
        rule = rule_of(method.service, method.name)
        if self._serves(rule):
            return call

        async def refused(request: Any, context: Context) -> Any:
            await abort(context, self._refusal(method, rule, context))

        return refused

    def around_stream(self, method: Method, call: StreamCall) -> StreamCall:
        """Wrap a method with a stream of responses."""
        rule = rule_of(method.service, method.name)
        if self._serves(rule):
            return call

        async def refused(request: Any, context: Context) -> AsyncIterator[Any]:
            await abort(context, self._refusal(method, rule, context))
            yield  # type: ignore[unreachable]  # It makes a generator, as a method with a stream is one.

        return refused

    def around_servicer(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap the servicer's method itself, which gets the parsed request: for what depends on its content.
        Nothing is put around one whose calls have no line in the audit log."""
        rule = rule_of(method.service, method.name)
        if not rule.is_audited:
            return call

        async def audited(request: Any, context: Context) -> Any:
            outcome = "OK"
            try:
                return await call(request, context)
            except asyncio.CancelledError:
                # The caller has gone, or its time is over; what it asked for may still happen.
                outcome = "CANCELLED"
                raise
            except Exception as error:
                outcome = reason_of(error_told(error).code)
                raise
            finally:
                subjects, more = subjects_of(request, rule.subject_path)
                is_trial = getattr(request, "validate_only", False)
                self._audit.allowed(self._audited(method, rule, context), subjects, more, is_trial, outcome)

        return audited

    def _serves(self, rule: AccessRule) -> bool:
        return self._listener is Listener.INTERNAL or rule.is_external

    def _refusal(self, method: Method, rule: AccessRule, context: Context) -> ServiceError:
        """Write down that a call is refused; and the error to refuse it with."""
        error = ServiceError(
            ErrorCode.ERROR_CODE_NOT_AUTHORIZED,
            f"{method} is for the processes of the cluster: the internal listener alone serves it, and this "
            "is the external one; call the address that the server gets by --listen or --advertise",
            {"method": str(method), "listener": self._listener.name.lower()},
        )
        self._audit.denied(self._audited(method, rule, context), error.message)
        return error

    def _audited(self, method: Method, rule: AccessRule, context: Context) -> AuditedCall:
        return AuditedCall(
            current_caller(),
            context.peer(),
            self._listener.name.lower(),
            str(method),
            rule,
            trace_id_of(current_traceparent()),
        )
