"""The HTTP API: thin, on the store. docs/api.md has the routes, docs/security.md who may use them."""
