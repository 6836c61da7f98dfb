"""The bugs."""

from ..bug import Bug
from .counting import BOXES, PAGES

BUGS: tuple[Bug, ...] = (PAGES, BOXES)
