"""The parts of the screens: each draws a record and posts what a person did to it."""
