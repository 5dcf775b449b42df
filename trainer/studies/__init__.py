"""The paper's study as tasks: runs over folds and seeds, claims, results."""
