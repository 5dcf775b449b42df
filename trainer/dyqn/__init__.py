"""The DyQN agent: environment, targets, network, memory and training loop."""
