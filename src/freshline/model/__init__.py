"""The words of the project as enums and frozen records."""
