"""Peers that learn with supervision: the ensemble on whole and on partial evidence, and what stops asking for them."""
