"""Files of other programs that hold graphs, read without trust: tables, GML, matrices, meshes."""
