"""Outgoing HTTP: egress policy, signatures, OpenLineage."""
