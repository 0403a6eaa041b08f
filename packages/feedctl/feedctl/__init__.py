"""`feedctl`, the operators' command line: a client of the public API, the contracts and, to verify, of the databases."""
