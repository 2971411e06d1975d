"""The job of every asset as Freshline calls it; it becomes `jobs.py` of the project that the benchmark makes."""

import job


def work(ctx):  # noqa: ANN001, ANN201 - as a user would write it
    """Make the asset below the only input."""
    (source,) = ctx.inputs
    job.work("slow" if source == "slow_source" else "")
