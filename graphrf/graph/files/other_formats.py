"""Formats that graphrf does not read, and the readers of other libraries whose results it takes."""

from __future__ import annotations

from pathlib import Path

from graphrf.graph.files.text_files import suffix

_MAP = "geopandas.read_file"
_MESH = "trimesh.load_mesh"
_READERS = {
    **dict.fromkeys((".gpkg", ".shp", ".geojson", ".fgb", ".kml", ".gdb", ".topojson"), _MAP),
    **dict.fromkeys((".net", ".paj", ".pajek"), "networkx.read_pajek"),
    **dict.fromkeys((".gal", ".gwt", ".swm"), "libpysal.io.open"),
    **dict.fromkeys((".graph", ".metis"), "networkit.readGraph(path, networkit.Format.METIS)"),
    **dict.fromkeys((".glb", ".gltf", ".3mf", ".dae"), _MESH),
    **dict.fromkeys((".vtk", ".vtu", ".msh"), "meshio.read"),
    **dict.fromkeys((".xls", ".xlsx"), "pandas.read_excel"),
    ".gexf": "networkx.read_gexf",
    ".adjlist": "networkx.read_adjlist",
    ".g6": "networkx.read_graph6",
    ".s6": "networkx.read_sparse6",
    ".dot": "networkx.nx_pydot.read_dot",
    ".gr": "igraph.Graph.Read_DIMACS",
    ".dimacs": "igraph.Graph.Read_DIMACS",
    ".osm": "osmnx.graph_from_xml",
    ".parquet": "geopandas.read_parquet or pandas.read_parquet",
    ".feather": "geopandas.read_feather or pandas.read_feather",
    ".json": "geopandas.read_file (GeoJSON) or networkx.node_link_graph",
    ".npy": "numpy.load",
    ".mat": "scipy.io.loadmat",
}
# What is to be done with the results of these before graphrf takes them.
_THEN = {
    "libpysal.io.open": "load_graph(libpysal.io.open(path).read())",
    "meshio.read": "from_mesh((mesh.points, mesh.cells_dict['quad'])), with the cells that it has",
    _MESH: "from_mesh(trimesh.load_mesh(path))",
}


def reader_of(path: Path) -> str:
    """The way out for a file of another format, which ends an error's message; or nothing."""
    reader = _READERS.get(suffix(path))
    if reader is None:
        return ""
    return f"; {reader} reads this format: {_THEN.get(reader, 'pass its result to load_graph')}"
