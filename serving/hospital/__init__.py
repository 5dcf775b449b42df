"""What hospitals' systems call: FHIR and CDS Hooks over HTTP. The rest of the server does without."""
