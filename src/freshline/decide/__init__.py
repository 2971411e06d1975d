"""Decisions as pure functions of policy, state and time. Start with `decide.decide`."""

from freshline.decide.decide import decide
from freshline.decide.decision import Decision, NewRun, Renewal

__all__ = ["Decision", "NewRun", "Renewal", "decide"]
