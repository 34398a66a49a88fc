"""Refuses calls that the rule of their method forbids, and writes the audit log.

The rules are in `hightide_runtime.access.rules`, the lines in `hightide_runtime.access.audit`.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.access.audit import AuditedCall, AuditLog
from hightide_runtime.access.authoriser import Authoriser
from hightide_runtime.access.call_access import ACCESS, CallAccess, not_authorised
from hightide_runtime.access.callers import Callers, UnknownCaller, UnknownToken
from hightide_runtime.access.principals import CALLER, current_caller
from hightide_runtime.access.rules import AccessRule, rule_of
from hightide_runtime.access.subjects import names_in, subjects_of
from hightide_runtime.errors import ServiceError, abort, reason_of
from hightide_runtime.serving.interceptors.errors import error_told
from hightide_runtime.serving.interceptors.interceptor import Context, Method, StreamCall, UnaryCall
from hightide_runtime.serving.listeners import Listener
from hightide_runtime.telemetry.trace_context import current_traceparent, trace_id_of
from hightide_runtime.znodes.acls_znode import CLUSTER_NAME


class AccessInterceptor:
    """The access to one listener. It stands outside of the parsing, so that a refusal costs next to nothing.

    The external listener serves only what its clients need. It refuses the rest with NOT_AUTHORIZED. This
    says more than gRPC's UNIMPLEMENTED for a method that is not registered: the method exists, and a process
    that calls it here has the wrong address.

    Where callers must show who they are, each call has a caller, whose role the method's rule must name, and
    who speaks for nobody else. Elsewhere all callers are anonymous, and may call what the listener serves.

    With ACLs, a caller may do only what they allow. What a call is about as a whole, the cluster or what a
    field of the request names, is checked here. Servicers check the rest, by `current_access()`.
    """

    def __init__(
        self,
        listener: Listener,
        audit: AuditLog,
        callers: Callers | None,
        authoriser: Authoriser | None = None,
    ) -> None:
        """`callers` finds out who calls; None: callers show nothing, and are anonymous. `authoriser` has the
        ACLs; None: there are none."""
        self._listener = listener
        self._audit = audit
        self._callers = callers
        self._authoriser = authoriser

    def around_unary(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap a method with one response. Nothing is put around one that everybody may call here."""
        rule = rule_of(method.service, method.name)
        if self._is_open(rule):
            return call

        async def admitted(request: Any, context: Context) -> Any:
            if (refusal := self._refusal(method, rule, context)) is not None:
                await abort(context, refusal)
            if method.needs_deadline:
                return await call(request, context)
            return await self._while_proven(method, rule, call, request, context)

        return admitted

    async def _while_proven(
        self, method: Method, rule: AccessRule, call: UnaryCall, request: Any, context: Context
    ) -> Any:
        """Let a call that has no deadline go on for as long as it is proven who makes it: with a token, until
        that expires, as Kafka ends a connection whose client does not authenticate again (KIP-368). Calls
        with a deadline end by that."""
        assert self._callers is not None
        # What the servicer raises by itself, also a TimeoutError, was answered by the error interceptor.
        try:
            async with asyncio.timeout(self._callers.proven_for_s(context)):
                return await call(request, context)
        except TimeoutError:
            why = f"the token of {method} has expired meanwhile; call again with a valid one"
        return await abort(context, self._denied(method, rule, context, why, UnknownToken.code))

    def around_stream(self, method: Method, call: StreamCall) -> StreamCall:
        """Wrap a method with a stream of responses."""
        assert method.needs_deadline, f"{method} would outlive the proof of who calls it: make it a coroutine"
        rule = rule_of(method.service, method.name)
        if self._is_open(rule):
            return call

        async def admitted(request: Any, context: Context) -> AsyncIterator[Any]:
            if (refusal := self._refusal(method, rule, context)) is not None:
                await abort(context, refusal)
            async for response in call(request, context):
                yield response

        return admitted

    def around_servicer(self, method: Method, call: UnaryCall) -> UnaryCall:
        """Wrap the servicer's method itself, which gets the parsed request: for what depends on its content.
        Nothing is put around one of which nothing does."""
        rule = rule_of(method.service, method.name)
        if rule.is_audited:
            call = self._audited(method, rule, call)
        if rule.own_id_path and self._callers is not None:
            call = self._speaking_for_itself(method, rule, call)
        if rule.resource_path and self._authoriser is not None:
            call = self._authorised(self._authoriser, method, rule, call)
        return call

    def _authorised(
        self, authoriser: Authoriser, method: Method, rule: AccessRule, call: UnaryCall
    ) -> UnaryCall:
        operation, resource_type = rule.operation, rule.resource_type

        async def checked(request: Any, context: Context) -> Any:
            caller = current_caller()
            for name in names_in(request, rule.resource_path):
                if not authoriser.allows_call(caller, operation, resource_type, name):
                    raise self._not_allowed(authoriser, method, rule, context, name)
            return await call(request, context)

        return checked

    def _not_allowed(
        self, authoriser: Authoriser, method: Method, rule: AccessRule, context: Context, name: str
    ) -> ServiceError:
        """Write down that ACLs do not allow a call; and the error to refuse it with. A topic that the caller
        may not know of is refused as one that does not exist."""
        caller, operation, resource_type = current_caller(), rule.operation, rule.resource_type
        refused = not_authorised(caller, operation, resource_type, name)
        self._audit.denied(self._facts(method, rule, context), refused.message, name)
        if (
            resource_type == "topic"
            and operation != "create"
            and not authoriser.allows(caller, "describe", "topic", name)
        ):
            return ServiceError(ErrorCode.ERROR_CODE_UNKNOWN_TOPIC, f"topic {name[:249]!r} does not exist")
        return refused

    def _speaking_for_itself(self, method: Method, rule: AccessRule, call: UnaryCall) -> UnaryCall:
        async def checked(request: Any, context: Context) -> Any:
            (told,), _ = subjects_of(request, rule.own_id_path)
            caller = current_caller()
            if caller.name != told:
                field = ".".join(rule.own_id_path)
                raise self._denied(
                    method,
                    rule,
                    context,
                    f"{caller} may not call {method} with {field} {told}: a process speaks for itself only, "
                    "and its certificate says which one it is",
                )
            return await call(request, context)

        return checked

    def _audited(self, method: Method, rule: AccessRule, call: UnaryCall) -> UnaryCall:
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
                self._audit.allowed(self._facts(method, rule, context), subjects, more, is_trial, outcome)

        return audited

    def _serves(self, rule: AccessRule) -> bool:
        return self._listener is Listener.INTERNAL or rule.is_external

    def _is_open(self, rule: AccessRule) -> bool:
        """Whether everybody who reaches this listener may call the method."""
        return self._serves(rule) and self._callers is None and self._authoriser is None

    def _refusal(self, method: Method, rule: AccessRule, context: Context) -> ServiceError | None:
        """Find out who calls, and whether the rule lets the caller in."""
        if self._callers is not None:
            try:
                CALLER.set(self._callers.identify(context))
            except UnknownCaller as error:
                return self._denied(method, rule, context, str(error), error.code)
        if not self._serves(rule):
            return self._denied(
                method,
                rule,
                context,
                f"{method} is for the processes of the cluster: the internal listener alone serves it, and "
                "this is the external one; call the address that the server gets by --listen or --advertise",
            )
        if self._callers is not None and current_caller().role not in rule.roles:
            allowed = ", ".join(sorted(rule.roles)) or "nobody"
            return self._denied(
                method, rule, context, f"{current_caller()} may not call {method}: it is for {allowed}"
            )
        if self._authoriser is not None:
            return self._not_authorised(self._authoriser, method, rule, context)
        return None

    def _not_authorised(
        self, authoriser: Authoriser, method: Method, rule: AccessRule, context: Context
    ) -> ServiceError | None:
        """Check what ACLs say of the call before its request is known, and let the servicer ask the rest."""
        caller = current_caller()
        if (refusal := authoriser.not_ready(caller)) is not None:
            return refusal
        if rule.resource_type == CLUSTER_NAME and not authoriser.allows_call(
            caller, rule.operation, CLUSTER_NAME, CLUSTER_NAME
        ):
            return self._not_allowed(authoriser, method, rule, context, CLUSTER_NAME)

        def denied(why: str, resource: str) -> None:
            self._audit.denied(self._facts(method, rule, context), why, resource)

        ACCESS.set(CallAccess(caller, authoriser, denied))
        return None

    def _denied(
        self,
        method: Method,
        rule: AccessRule,
        context: Context,
        why: str,
        code: ErrorCode.ValueType = ErrorCode.ERROR_CODE_NOT_AUTHORIZED,
    ) -> ServiceError:
        """Write down that a call is refused; and the error to refuse it with."""
        self._audit.denied(self._facts(method, rule, context), why)
        facts = {
            "method": str(method),
            "caller": str(current_caller()),
            "listener": self._listener.name.lower(),
        }
        return ServiceError(code, why, facts)

    def _facts(self, method: Method, rule: AccessRule, context: Context) -> AuditedCall:
        return AuditedCall(
            current_caller(),
            context.peer(),
            self._listener.name.lower(),
            str(method),
            rule,
            trace_id_of(current_traceparent()),
        )
