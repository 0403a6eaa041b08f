"""The public HTTP API, a module for each kind of resource."""
