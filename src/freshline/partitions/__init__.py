"""Partitions: partitionings and their keys, selections of keys, mappings between inputs and consumers. Pure.

Read in this order: `keys` (texts), `calendar` (windows of time), `partitioning` (which keys exist), `selection`
(sets of keys), `mapping` (`up` and `down`), `compatibility` (which mappings are allowed), `requirements`.
"""

from freshline.partitions.calendar import Calendar, Window
from freshline.partitions.compatibility import default_requirement, mapping_between
from freshline.partitions.declaration import Affects, All, Around, Declaration, Latest, Overlap, Pick, Same
from freshline.partitions.dimensions import Dimensions
from freshline.partitions.document import from_json
from freshline.partitions.grain import Grain
from freshline.partitions.key_partitionings import DynamicKeys, FixedKeys, Unpartitioned
from freshline.partitions.keys import UNPARTITIONED
from freshline.partitions.mapping import PartitionMapping
from freshline.partitions.partitioning import Column, Partitioning
from freshline.partitions.requirements import Readiness, Requirement, assess
from freshline.partitions.selection import EVERYTHING, NOTHING, Selection
from freshline.partitions.time_partitioning import TimePartitioning

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "UNPARTITIONED",
    "Affects",
    "All",
    "Around",
    "Calendar",
    "Column",
    "Declaration",
    "Dimensions",
    "DynamicKeys",
    "FixedKeys",
    "Grain",
    "Latest",
    "Overlap",
    "PartitionMapping",
    "Partitioning",
    "Pick",
    "Readiness",
    "Requirement",
    "Same",
    "Selection",
    "TimePartitioning",
    "Unpartitioned",
    "Window",
    "assess",
    "default_requirement",
    "from_json",
    "mapping_between",
]
