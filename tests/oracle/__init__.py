"""Random programmes of all that can be done to a mesh, held against the one invariant: `make test-oracle`."""
