"""An in-memory simulation of the materializer, for plans, `freshline simulate` and tests. No IO, no clock, one seed."""

from freshline.simulation.catalogue import Catalogue, Member
from freshline.simulation.driver import Driver, Jobs, Work
from freshline.simulation.observer import Observer
from freshline.simulation.records import Run
from freshline.simulation.simulator import Simulator

__all__ = ["Catalogue", "Driver", "Jobs", "Member", "Observer", "Run", "Simulator", "Work"]
