"""A plugin of pytest: who only asks whether a property fails need not have the shortest example."""

from __future__ import annotations

from hypothesis import Phase, settings

settings.register_profile("unshrunk", phases=[Phase.explicit, Phase.generate], database=None)
settings.load_profile("unshrunk")
