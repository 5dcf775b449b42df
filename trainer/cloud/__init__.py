"""Jobs in a cloud: files in an object store, a service's environment, and the requests that submit them."""
