"""Who may call: addresses, tokens, TLS."""
