"""One module per command, imported only when the command is called."""
