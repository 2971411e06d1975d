"""Watches of sources: claims, results of looks, and the files that were seen."""
