"""The reports of a study and of one agent as pages, and of a study as Markdown: figures, sentences and tables."""
