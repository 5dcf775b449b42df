"""What the server records about itself: metrics, traces, logs, and the audit log."""
