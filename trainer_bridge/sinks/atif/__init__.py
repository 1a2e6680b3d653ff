"""Episodes as ATIF trajectories, the format in which Harbor and its tools exchange them."""

from trainer_bridge.sinks.atif.sink import AtifSettings, AtifSink

__all__ = ["AtifSettings", "AtifSink"]
