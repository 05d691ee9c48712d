"""Recall: seeded prompts of an exact length, answers judged, and what their number allows to say."""
