"""The graph as Airflow assets: a DAG for each, scheduled by the assets that it reads. The DAG processor parses it."""

import json
import os
from pathlib import Path

from airflow.sdk import Asset, asset
from job import work

GRAPH = json.loads(Path(os.environ["PEERS_GRAPH"]).read_text(encoding="utf-8"))

for name, inputs in GRAPH["consumes"].items():

    def make(self: Asset) -> None:
        """Make the asset that Airflow names."""
        work(self.name)

    asset(name=name, schedule=[Asset(one) for one in inputs], is_paused_upon_creation=False)(make)
