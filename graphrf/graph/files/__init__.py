"""Files of other programs that hold graphs, read without trust: edge lists, GML, GraphML, matrices,
OBJ meshes.
"""
