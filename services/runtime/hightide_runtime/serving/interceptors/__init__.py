"""What is put around every method of every service; `serving.server` fixes the order.

An interceptor wraps a method once, when the server is built, and not anew for each call as grpc's own
ServerInterceptor does: around an RPC there is then nothing but a function in a function.
"""
