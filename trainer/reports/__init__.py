"""What commands write for people about an agent, a version or a study: figures, sentences, tables, pages, cards."""
