"""Records as people read them: terminal pages, an HTML file, a piece of Markdown."""
