"""The paper's study: baselines, its tasks over folds and seeds, results, and claims."""
