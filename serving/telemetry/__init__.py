"""What the server reports about itself: metrics, traces, logs, the audit log."""
