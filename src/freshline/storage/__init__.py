"""The tables as files: what others read of them, and what nobody needs any more. No Spark in here."""
