"""The web view: a read-only page on the operator's loopback, for `episodectl ui` and `logs -f`.

Nothing listens outside of the pod: who may `create pods/portforward` in the operator's namespace
may look, and the cluster decides who that is.
"""

from episode_operator.view.server import Conversations, View

__all__ = ["Conversations", "View"]
