"""What a job in a cloud needs: files in an object store, the environment of a service, and how to submit a job."""
