"""The report of a study, as a page and as Markdown: figures, sentences and tables."""
