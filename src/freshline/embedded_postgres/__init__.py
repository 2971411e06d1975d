"""A private PostgreSQL server per project, from the binaries of a wheel."""
