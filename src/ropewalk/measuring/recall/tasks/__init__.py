"""What is asked of a haystack: each kind of question drafts its needles from a seed."""

from ropewalk.measuring.recall.tasks.records import Draft, Needle, Question, Task
from ropewalk.measuring.recall.tasks.registry import TASKS, Asked, asked, find_task

__all__ = ["TASKS", "Asked", "Draft", "Needle", "Question", "Task", "asked", "find_task"]
