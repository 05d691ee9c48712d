"""Rotary positions: rates of every pair, the decision for a length, the engines' own words for it."""
