"""PURE: (rules, open incidents, what is wrong, now) -> which incidents open and close, and what is sent."""
