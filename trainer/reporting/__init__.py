"""The report of a study: its figures, sentences and tables, as a page and as Markdown."""
