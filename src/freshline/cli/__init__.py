"""The command line: thin, it calls the store and the services."""
