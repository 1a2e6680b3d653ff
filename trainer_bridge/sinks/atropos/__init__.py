"""Atropos: groups are posted to its server, as one of its environments."""

from trainer_bridge.sinks.atropos.settings import AtroposServerSettings, AtroposSettings
from trainer_bridge.sinks.atropos.sink import AtroposSink

__all__ = ["AtroposServerSettings", "AtroposSettings", "AtroposSink"]
