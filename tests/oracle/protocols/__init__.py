"""The protocols between Redis, the truth and those who write and read, raced against one another step by step.

The domain code, the stores and the scripts are the real ones, and so is Redis; the truth is a model, and the order in which
the steps of all come is chosen by the test. So a race that real processes lose once an hour is lost here within seconds.
"""
