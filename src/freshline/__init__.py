"""Freshline keeps data assets fresh by itself."""
