"""stub"""

from ropewalk.tui.screens.base import RecordScreen


class OpenScreen(RecordScreen):
    PLACE = "open"


SCREEN = OpenScreen
