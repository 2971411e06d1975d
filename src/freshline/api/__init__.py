"""The HTTP API, a thin layer over the store. docs/api.md lists the routes, docs/security.md describes access control.

This module has only constants that clients need too, so that importing it is cheap.
"""

PREFIX = "/api/v1"
VERSION = "Freshline-Version"  # response header; a client of another version stops with an error
WARNING = "Freshline-Warning"  # response header: a name in the request matches nothing
MAX_PAGE = 1000
