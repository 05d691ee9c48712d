"""What writes the generated pages of the documentation; the pages themselves are Markdown beside it."""
