"""The documents that reads return, to the command line and to the API alike.

Field names are public. Times are ISO 8601 in UTC, ids are text.
"""
