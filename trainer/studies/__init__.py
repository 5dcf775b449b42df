"""The paper's study: its tasks over folds and seeds, results, and claims."""
