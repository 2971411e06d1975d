"""The files of a warehouse: storage backends and the layout of tables. Nothing here needs Spark."""
