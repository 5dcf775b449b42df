"""The simulator: patients drawn from a knowledge base, and a panel of clinicians who triage them."""
