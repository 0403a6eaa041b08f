"""Consumes Kafka topics: whatever is taken is handled before its offset is committed, or is set aside with the reason."""
