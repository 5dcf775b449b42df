"""Generated messages and stubs of the Open Inference Protocol."""
