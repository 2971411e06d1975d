"""An in-memory world around `decide`: for plans, simulations and users' own tests. No IO, no clock, one seed."""

from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.driver import Jobs, Player, Work
from freshline.simulation.observer import Witness
from freshline.simulation.records import Run
from freshline.simulation.simulator import World

__all__ = ["Catalogue", "Jobs", "Member", "Player", "Run", "Witness", "Work", "World"]
