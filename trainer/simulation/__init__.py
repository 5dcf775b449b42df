"""The simulator: patients from a knowledge base, and the panel of clinicians who triage them."""
