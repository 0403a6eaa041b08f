"""What can go wrong in starting and running the mesh, each with a message fit to be shown as one line."""


class MeshError(Exception):
    """The mesh, or one of its parts, could not start or did not stay up. The text is one line for a person."""


class MeshCancelled(Exception):
    """Somebody asked the mesh to stop while it was still starting."""
