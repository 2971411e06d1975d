"""The Delta logs of tables, so that other engines can read them."""
