"""The embedded mesh: real backends from wheels and every process of the product, for ``make up`` and for tests.

``devmesh.mesh.Mesh`` is the whole of it; ``devmesh.backends`` are usable alone. Nothing is imported here, so that
the small processes of this package (``devmesh.guard``, ``devmesh.backends.kafka``) start in milliseconds.
"""
