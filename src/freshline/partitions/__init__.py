"""Partitions: partitionings and their keys, selections of keys, mappings between inputs and consumers. Pure.

Read in this order: `keys` (texts), `calendar` (windows of time), `partitioning` (which keys exist), `selection`
(sets of keys), `mapping` (`up` and `down`), `compatibility` (which mappings are allowed), `requirements`.
"""

from freshline.partitions.calendar import Calendar, Window
from freshline.partitions.dimensions import Dimensions
from freshline.partitions.document import from_json
from freshline.partitions.grain import Grain
from freshline.partitions.key_partitionings import DynamicKeys, FixedKeys, Unpartitioned
from freshline.partitions.keys import UNPARTITIONED
from freshline.partitions.partitioning import Column, Partitioning
from freshline.partitions.selection import EVERYTHING, NOTHING, Selection
from freshline.partitions.time_partitioning import TimePartitioning

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "UNPARTITIONED",
    "Calendar",
    "Column",
    "Dimensions",
    "DynamicKeys",
    "FixedKeys",
    "Grain",
    "Partitioning",
    "Selection",
    "TimePartitioning",
    "Unpartitioned",
    "Window",
    "from_json",
]
