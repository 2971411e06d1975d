"""An in-memory world around `decide`: for plans, simulations and users' own tests. No IO, no clock, one seed."""

from freshline.world.catalogue import Catalogue, Member
from freshline.world.playing import Jobs, Player, Work
from freshline.world.records import Run
from freshline.world.witness import Witness
from freshline.world.world import World

__all__ = ["Catalogue", "Jobs", "Member", "Player", "Run", "Witness", "Work", "World"]
