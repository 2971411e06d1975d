"""PostgreSQL: named SQL, one module per concern, transactions only in the facade."""
