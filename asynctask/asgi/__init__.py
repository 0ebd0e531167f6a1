"""The HTTP surface: plain Starlette routes around `Jobs`.

All that HTTP can do, Python can do without it. The contract follows RFC 9110 (202, conditional requests),
RFC 7240 (`Prefer: wait`) and RFC 9457 (`application/problem+json`).
"""

from asynctask.asgi.routing import routes
from asynctask.asgi.static import static_files

__all__ = ["routes", "static_files"]
