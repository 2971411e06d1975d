"""The graph as Airflow assets: a DAG for each, scheduled by the assets that it reads. The DAG processor parses it.

A task parses the file again before it runs; as Airflow's documentation advises, it then makes only the DAG it needs.
"""

import json
import os
from pathlib import Path

from airflow.sdk import Asset, asset, get_parsing_context
from job import work

GRAPH = json.loads(Path(os.environ["PEERS_GRAPH"]).read_text(encoding="utf-8"))
WANTED = get_parsing_context().dag_id


def make(self: Asset) -> None:
    """Make the asset that Airflow names."""
    work(self.name)


for name, inputs in GRAPH["consumes"].items():
    if WANTED in {None, name}:
        asset(name=name, schedule=[Asset(one) for one in inputs], is_paused_upon_creation=False)(make)
