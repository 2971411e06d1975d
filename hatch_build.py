"""Builds the page before a wheel or an sdist is packed, so that both contain it. Editable installs do without."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface):  # type: ignore[type-arg] # hatchling names its configuration in no public place
    """Runs scripts/build_page.py. Where npm cannot be reached, it warns and packs the rest; `make dist` is strict."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling names it
        """Build the page if its sources changed."""
        if version == "editable":
            return
        script = Path(self.root) / "scripts" / "build_page.py"
        spec = importlib.util.spec_from_file_location("freshline_build_page", script)
        if spec is None or spec.loader is None:
            raise RuntimeError(f"{script} cannot be loaded")
        build_page = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = build_page  # dataclasses look their module up
        spec.loader.exec_module(build_page)
        try:
            build_page.build(build_page.Places(Path(self.root)), self.app.display_info)
        except build_page.UnavailableError as error:
            self.app.display_warning(f"the package contains no page: {error}. {build_page.WITHOUT}")
