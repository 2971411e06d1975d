"""The HTTP API: thin, on the store. docs/api.md has the routes, docs/security.md who may use them.

Here is what its clients have to know too; it costs no import of the rest.
"""

PREFIX = "/api/v1"
VERSION = "Freshline-Version"  # a header, so that a client which speaks another version can say so
LONGEST_PAGE = 1000
