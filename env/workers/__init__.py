"""Episodes in other processes, on this machine or on others."""

from .pool import Pool, WorkersLost
from .processes import processes

__all__ = ["Pool", "WorkersLost", "processes"]
