"""Face and vertex graphs of meshes: counts, weights, welding, degenerate input, files."""

from __future__ import annotations

import gzip
import io
import re
import struct
import types

import numpy as np
import pytest

from graphrf.graph.builders import from_mesh
from graphrf.graph.geometry import meshes
from graphrf.graph.geometry.faces import Faces
from graphrf.graph.graph import given_nodes
from graphrf.graph.loaders import load_graph
from tests.support.bounds import within

# Two triangles over a rectangle of 2 by 1.
CORNERS = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0]], dtype=float)
HALVES = np.array([[0, 1, 2], [0, 2, 3]])

TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
SIDES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def dense(graph):
    return graph.adjacency.toarray()


def test_a_tetrahedron_joins_all_faces_and_all_vertices():
    for on in ("faces", "vertices"):
        np.testing.assert_array_equal(dense(from_mesh((TETRAHEDRON, SIDES), on=on)), 1 - np.eye(4))


def test_faces_that_share_only_a_corner_are_not_joined():
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]], dtype=float)
    with pytest.warns(UserWarning, match="2 of the 2 faces have no edge"):
        assert from_mesh((vertices, np.array([[0, 1, 2], [0, 3, 4]]))).n_edges == 0


def test_inverse_length_is_mean_over_distance_of_centroids_or_vertices():
    faces = dense(from_mesh((CORNERS, HALVES), weights="inverse_length"))
    np.testing.assert_allclose(faces, [[0, 1], [1, 0]])  # one edge is its own mean
    lengths = np.linalg.norm(CORNERS[:, None] - CORNERS[None], axis=2)
    lengths[1, 3] = lengths[3, 1] = 0  # the diagonal that is no side
    upper = lengths[np.triu_indices(4, 1)]
    expected = np.divide(upper[upper > 0].mean(), lengths, out=np.zeros((4, 4)), where=lengths > 0)
    np.testing.assert_allclose(
        dense(from_mesh((CORNERS, HALVES), on="vertices", weights="inverse_length")), expected
    )


def test_cotangent_weights_are_the_stiffness_matrix_of_linear_elements():
    vertices = np.array(
        [[0, 0, 0], [1, 0.1, 0.3], [0.9, 1.2, 0.1], [0.1, 0.8, -0.2], [0.5, 0.55, 0.6]]
    )
    faces = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])
    stiffness = np.zeros((5, 5))
    for face in faces:
        corners = vertices[face]
        normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
        area = np.linalg.norm(normal) / 2
        # Gradient of the hat function of a corner: the opposite side turned by a quarter, over
        # twice the area.
        hats = [
            np.cross(normal / (2 * area), corners[(i + 2) % 3] - corners[(i + 1) % 3]) / (2 * area)
            for i in range(3)
        ]
        for i in range(3):
            for j in range(3):
                stiffness[face[i], face[j]] += area * hats[i] @ hats[j]
    graph = from_mesh((vertices, faces), on="vertices", weights="cotangent")
    off = -stiffness + np.diag(np.diag(stiffness))
    assert (off >= 0).all()
    np.testing.assert_allclose(dense(graph), off, atol=1e-14)


def test_negative_cotangents_are_clipped_with_a_warning():
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0.5, 0.1, 0], [0.5, -0.1, 0]], dtype=float)
    with pytest.warns(UserWarning, match="1 of 5 cotangent weights are negative"):
        graph = from_mesh((vertices, [[0, 1, 2], [1, 0, 3]]), on="vertices", weights="cotangent")
    assert dense(graph)[0, 1] == 0
    assert (graph.adjacency.data > 0).all()


def test_a_right_angle_is_no_edge_and_no_warning():
    graph = from_mesh((CORNERS, HALVES), on="vertices", weights="cotangent")
    np.testing.assert_allclose(dense(graph)[0], [0, 0.25, 0, 1.0])
    # In float32, as in STL, a turned square has no exact right angle.
    rng = np.random.default_rng(0)
    for turn in np.linalg.qr(rng.normal(size=(20, 3, 3)))[0]:
        turned = (np.asarray(CORNERS) @ turn + rng.normal(size=3)).astype(np.float32)
        graph = from_mesh((turned, HALVES), on="vertices", weights="cotangent")
        assert graph.n_edges == 4


@pytest.mark.filterwarnings("ignore:.* have no edge", "ignore:1 faces repeat")
def test_repeated_and_degenerate_faces_are_legal():
    faces = np.array([[0, 1, 2], [0, 2, 3], [0, 2, 3], [1, 1, 2], [3, 3, 3]])
    for on in ("faces", "vertices"):
        for weights in ("unit", "inverse_length"):
            graph = from_mesh((CORNERS, faces), on=on, weights=weights)
            assert graph.n_nodes == (5 if on == "faces" else 4)
            assert np.isfinite(graph.adjacency.data).all()
            assert graph.adjacency.diagonal().sum() == 0
    plain = from_mesh((CORNERS, HALVES), on="vertices", weights="cotangent")
    np.testing.assert_allclose(
        dense(from_mesh((CORNERS, faces), on="vertices", weights="cotangent")),
        dense(plain),
        atol=1e-15,
    )
    needle = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0]], dtype=float)
    assert from_mesh((needle, [[0, 1, 2]]), on="vertices", weights="cotangent").n_edges == 0


def test_a_repeated_face_takes_edges_away_with_a_warning(recwarn):
    vertices = np.vstack([np.zeros(3), np.eye(3)])
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
    assert from_mesh((vertices, faces)).n_edges == 6
    assert not recwarn
    with pytest.warns(
        UserWarning, match="1 faces repeat others, and both and their neighbours lose edges"
    ):
        assert from_mesh((vertices, [*faces, [3, 1, 2]])).n_edges == 3
    several = [[0, 1, 2, 3], [0, 1, 2], [3, 2, 1, 0], [2, 1, 0], [1, 0, 2]]
    assert Faces.of_rows(several).n_repeated() == 3


def test_twin_faces_at_one_place_have_the_weight_of_the_closest_distinct_pair():
    weights = meshes.inverse_lengths(np.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(weights, [1, 1, 0.5])
    np.testing.assert_array_equal(meshes.inverse_lengths(np.zeros(2)), [1, 1])


def test_a_side_of_three_faces_joins_none():
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1]], dtype=float)
    with pytest.warns(UserWarning, match="3 of the 3 faces have no edge"):
        assert from_mesh((vertices, [[0, 1, 2], [0, 1, 3], [0, 1, 4]])).n_edges == 0


def test_welding_joins_vertices_at_one_place_and_keeps_the_first_as_name():
    split = CORNERS[[3, 0, 1, 2, 0, 2]]  # the diagonal's ends twice
    split[4] = -0.0  # the same place as 0.0
    faces = np.array([[1, 2, 3], [4, 5, 0]])
    with pytest.warns(
        UserWarning, match="2 of the 2 faces have no edge.* pass weld=True if vertices repeat"
    ):
        assert from_mesh((split, faces), weld=False).n_edges == 0
    assert from_mesh((split, faces)).n_edges == 1
    graph = from_mesh((split, faces), on="vertices")
    assert list(graph.nodes) == [0, 1, 2, 3]
    assert from_mesh((split[[0, 1, 2, 4, 3, 5]], [[1, 2, 4], [3, 5, 0]]), on="vertices").nodes == (
        0,
        1,
        2,
        4,
    )
    assert from_mesh((split, faces), on="vertices", weld=False).n_nodes == 6


@pytest.mark.parametrize("suffix", ["stl", "ply", "off", "obj", "split.ply"])
def test_vertices_of_a_file_find_their_nodes_by_place_in_every_format(tmp_path, suffix):
    trimesh = pytest.importorskip("trimesh")
    cKDTree = pytest.importorskip("scipy.spatial").cKDTree
    ball = trimesh.creation.icosphere(2)
    if suffix == "split.ply":
        corners = np.arange(ball.faces.size).reshape(-1, 3)
        ball = trimesh.Trimesh(ball.vertices[ball.faces].reshape(-1, 3), corners, process=False)
    path = tmp_path / f"ball.{suffix}"
    ball.export(path)
    raw = trimesh.load_mesh(path, process=False)
    graph = from_mesh((raw.vertices, raw.faces), on="vertices")
    places = raw.vertices[list(graph.nodes)]
    node = cKDTree(places).query(raw.vertices)[1]
    np.testing.assert_allclose(places[node], raw.vertices, atol=1e-6)
    assert graph.positions(node).tolist() == node.tolist()
    own = from_mesh(path, on="vertices")
    assert own.n_nodes == graph.n_nodes == 162
    if suffix != "stl":
        assert own.nodes == graph.nodes


def test_vertices_without_faces_are_isolated_nodes():
    graph = from_mesh((np.vstack([CORNERS, [[9, 9, 9]]]), HALVES), on="vertices")
    assert graph.n_nodes == 5
    assert graph.degrees[4] == 0


@pytest.mark.parametrize(
    ("mesh", "error", "message"),
    [
        (3, TypeError, "`mesh` must be a path, a trimesh.Trimesh or a pair"),
        ((CORNERS[:, :2], HALVES), ValueError, r"vertices of shape \(V, 3\)"),
        (
            (CORNERS, np.array([[0, 1]])),
            ValueError,
            r"integers of shape \(F, 3\), or \(F, k\) for polygons",
        ),
        ((CORNERS, HALVES.astype(float)), ValueError, r"integers of shape \(F, 3\)"),
        ((CORNERS, [[0, 1, 2, 3], [0, 1]]), ValueError, "three or more integers, got .* as face 1"),
        (
            (CORNERS, [[0, 1, 2, 3], [0, 1, 2.5]]),
            ValueError,
            "three or more integers, got .* as face 1",
        ),
        ((CORNERS, np.zeros((0, 3), dtype=int)), ValueError, "at least one face"),
        ((CORNERS, np.array([[0, 1, 4]])), ValueError, r"vertices in \[0, 3\], got vertex 4"),
        ((CORNERS, np.array([[0, 1, -1]])), ValueError, "got vertex -1"),
        ((CORNERS * np.nan, HALVES), ValueError, "`mesh vertices` must be finite"),
    ],
)
def test_bad_meshes_are_refused(mesh, error, message):
    with pytest.raises(error, match=message):
        from_mesh(mesh)


def test_cotangents_are_for_vertices():
    with pytest.raises(ValueError, match="needs on='vertices'"):
        from_mesh((CORNERS, HALVES), weights="cotangent")
    with pytest.raises(ValueError, match="`on` must be one of"):
        from_mesh((CORNERS, HALVES), on="sides")


def test_anything_with_vertices_and_faces_is_a_mesh():
    mesh = types.SimpleNamespace(vertices=CORNERS, faces=HALVES)
    assert load_graph(mesh).n_nodes == 2
    assert load_graph(mesh, directed=True).n_edges == 2
    with pytest.raises(ValueError, match=r"belong to edges .*from_mesh has weights="):
        load_graph(mesh, weight="w")


# -- with trimesh ----------------------------------------------------------------------------------


def test_face_graphs_are_those_of_trimesh():
    creation = pytest.importorskip("trimesh.creation")
    mesh = creation.icosphere(subdivisions=2)
    graph = load_graph(mesh)
    expected = np.zeros((len(mesh.faces),) * 2)
    expected[tuple(mesh.face_adjacency.T)] = 1
    np.testing.assert_array_equal(dense(graph), expected + expected.T)
    edges = mesh.edges_unique
    expected = np.zeros((len(mesh.vertices),) * 2)
    expected[tuple(edges.T)] = 1
    np.testing.assert_array_equal(dense(from_mesh(mesh, on="vertices")), expected + expected.T)


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize("suffix", [".stl", ".ply", ".off", ".obj", ".STL"])
def test_mesh_files_round_trip(tmp_path, suffix, zipped):
    trimesh = pytest.importorskip("trimesh")
    content = trimesh.Trimesh(TETRAHEDRON, SIDES).export(file_type=suffix[1:].lower())
    content = content.encode() if isinstance(content, str) else content
    path = tmp_path / f"mesh{suffix}{zipped}"
    path.write_bytes(gzip.compress(content) if zipped else content)
    np.testing.assert_array_equal(dense(load_graph(path)), 1 - np.eye(4))
    np.testing.assert_array_equal(dense(from_mesh(str(path), on="vertices")), 1 - np.eye(4))


@pytest.mark.parametrize("suffix", [".stl", ".ply", ".off", ".obj"])
@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"ply\nformat ascii 1.0\nend_header\n", b"\x00" * 100]
)
def test_broken_mesh_files_are_refused_with_their_name(tmp_path, suffix, content):
    pytest.importorskip("trimesh")
    path = tmp_path / f"mesh{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"mesh{suffix} "):
        load_graph(path)


@pytest.mark.parametrize("kind", ["stl", "stl_ascii", "ply", "ply_ascii", "off"])
def test_mesh_files_that_end_early_are_refused(tmp_path, kind):
    """trimesh reads the faces that are there, or none, without a word."""
    trimesh = pytest.importorskip("trimesh")
    suffix, _, ascii_ply = kind.partition("_")
    sphere = trimesh.creation.icosphere(subdivisions=1)
    options = {"encoding": "ascii"} if kind == "ply_ascii" else {}
    content = sphere.export(file_type=suffix if ascii_ply and suffix == "ply" else kind, **options)
    content = content.encode() if isinstance(content, str) else content
    path = tmp_path / f"sphere.{suffix}"
    path.write_bytes(content)
    assert from_mesh(path).n_nodes == 80
    path.write_bytes(content[: int(0.9 * len(content))])
    with pytest.raises(
        ValueError, match=rf"sphere.{suffix} is not a (whole|readable) {suffix.upper()} mesh"
    ):
        from_mesh(path)


def obj(tmp_path, text):
    path = tmp_path / "mesh.obj"
    path.write_text(text)
    return path


def test_relative_corners_of_obj_count_from_the_last_vertex_so_far(tmp_path):
    """Exporters that write one object after the other refer to its vertices like that."""
    squares = "".join(
        f"o part{s}\n"
        f"v {s} 0 0\n"
        f"v {s + 1} 0 0\n"
        f"v {s + 1} 1 0\n"
        f"v {s} 1 0\n"
        "f -4 -3 -2\n"
        "f -4/1/1 -2//1 -1\n"
        for s in range(4)
    )
    absolute = re.sub(r"(-\d)((?:/\S*)?)", "{}\\2", squares).format(
        *(4 * s + 5 + c for s in range(4) for c in (-4, -3, -2, -4, -2, -1))
    )
    graphs = [
        from_mesh(obj(tmp_path, text), on=on)
        for on in ("faces", "vertices")
        for text in (squares, absolute)
    ]
    assert [graph.n_edges for graph in graphs] == [7, 7, 17, 17]
    np.testing.assert_array_equal(dense(graphs[0]), dense(graphs[1]))
    np.testing.assert_array_equal(dense(graphs[2]), dense(graphs[3]))


def test_obj_polygons_colours_comments_and_continued_lines(tmp_path):
    text = (
        "mtllib none.mtl\n"
        "  v 0 0 0 1 0 0 # red\n"
        "v 2 0 0 1.0\n"
        "v 2 1 0\n"
        "v \\\n"
        "0 1 0\n"
        "vn 0 0 1\n"
        "vt 0 0\n"
        "usemtl x\n"
        "f 1/1/1 2/1/1 3/1/1 4/1/1 # a_square\n"
        "l 1 2\n"
        "f 1 2 5\n"
        "v 1 -1 0\n"
    )
    graph = from_mesh(obj(tmp_path, text))
    np.testing.assert_array_equal(dense(graph), [[0, 1], [1, 0]])
    assert list(from_mesh(obj(tmp_path, text), on="vertices").nodes) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("f 0 1 2", "line 4: a face has three corners or more, counted from 1"),
        ("f 1 2", "line 4: a face has three corners or more"),
        ("f 1 2 -4", "back from the last of the 3 vertices above it; got 'f 1 2 -4'"),
        ("f 1 2 4", "line 4: a face has the vertex 4, but the file has 3 vertices"),
        ("f 1 2 3.5", "line 4: the corners of a face are integers"),
        ("f 1 2 0_3", "line 4: the corners of a face are integers"),
        ("v 1 2", "line 4: a vertex has three numbers, got 'v 1 2'"),
        ("l 1 2", "holds no faces"),
    ],
)
def test_damaged_obj_is_refused_with_its_line(tmp_path, line, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        from_mesh(obj(tmp_path, f"v 0 0 0\nv 1 0 0\nv 0 1 0\n{line}\n"))


@pytest.mark.filterwarnings("ignore:.*have no edge")  # the triangles are apart
@pytest.mark.parametrize("kind", ["obj", "stl"])
def test_materials_and_solids_take_linear_time(tmp_path, kind):
    """trimesh takes about a minute for each of these two, a mesh for a material or a solid."""
    pytest.importorskip("trimesh")
    text = "v 0 0 0\nv 1 0 0\nv 0 1 0\n" + "".join(
        f"usemtl m{at}\nf 1 2 3\n" for at in range(20_000)
    )
    if kind == "stl":
        loop = (
            "facet normal 0 0 1\nouter loop\n"
            "vertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n"
            "endloop\nendfacet\n"
        )
        text = "".join(f"solid s{at}\n{loop}endsolid s{at}\n" for at in range(40_000))
    path = tmp_path / f"many.{kind}"
    path.write_text(text)
    with within(seconds=20, megabytes=1500):
        assert from_mesh(path).n_nodes == (40_000 if kind == "stl" else 20_000)


def test_off_may_have_comments_behind_its_counts(tmp_path):
    pytest.importorskip("trimesh")
    path = tmp_path / "mesh.off"
    path.write_text("OFF # a face\n3 1 0 # counts\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")
    assert from_mesh(path).n_nodes == 1


def test_without_trimesh_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "trimesh", None)
    path = tmp_path / "mesh.stl"
    path.write_bytes(b"solid")
    with pytest.raises(ImportError, match=r"pip install 'graphrf\[mesh\]'"):
        load_graph(path)


def test_a_missing_mesh_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        from_mesh(tmp_path / "mesh.stl")
    (tmp_path / "mesh.step").write_bytes(b"x")
    with pytest.raises(ValueError, match="no known mesh format"):
        from_mesh(tmp_path / "mesh.step")


def test_many_faces_without_a_neighbour_are_told():
    corners = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    apart = (
        np.concatenate([corners + [3 * k, 0, 0] for k in range(120)]),
        np.arange(360).reshape(-1, 3),
    )
    with pytest.warns(UserWarning, match="120 of the 120 faces have no edge.* pass tolerance="):
        from_mesh(apart)
    with pytest.warns(UserWarning, match="pass weld=True"):
        from_mesh(apart, weld=False)
    from_mesh(apart, on="vertices")
    few = np.vstack([HALVES, [[4, 5, 6]]])
    from_mesh((np.vstack([CORNERS, 9 + corners]), few))  # one of three faces may be apart


# -- polygons --------------------------------------------------------------------------------------

CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
SQUARES = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
MIXED = [*SQUARES[:3], [2, 3, 7], [2, 7, 6], *SQUARES[4:]]


def content_of(kind, faces):
    """A mesh file of the cube's vertices."""
    rows = "".join(f"{x:g} {y:g} {z:g}\n" for x, y, z in CUBE)
    counted = "".join(f"{len(face)} {' '.join(map(str, face))}\n" for face in faces)
    if kind == "obj":
        corners = "".join(f"f {' '.join(str(corner + 1) for corner in face)}\n" for face in faces)
        return ("".join(f"v {row}\n" for row in rows.splitlines()) + corners).encode()
    if kind == "off":
        return f"OFF\n8 {len(faces)} 0\n{rows}{counted}".encode()
    form = "ascii" if kind == "ply" else "binary_little_endian"
    axes = "".join(f"property float {axis}\n" for axis in "xyz")
    head = f"ply\nformat {form} 1.0\nelement vertex 8\n{axes}element face {len(faces)}\n"
    head += "property list uchar int vertex_indices\nend_header\n"
    if kind == "ply":
        return (head + rows + counted).encode()
    listed = b"".join(struct.pack(f"<B{len(face)}i", len(face), *face) for face in faces)
    return head.encode() + CUBE.astype("<f4").tobytes() + listed


@pytest.mark.parametrize("faces", [SQUARES, MIXED], ids=["squares", "mixed"])
@pytest.mark.parametrize("kind", ["obj", "off", "ply", "binary ply", "arrays"])
def test_polygons_of_a_mesh_are_its_nodes_in_the_order_of_the_file(tmp_path, kind, faces):
    """Opposite faces of the cube do not meet; no square is split into triangles."""
    if "ply" in kind:
        pytest.importorskip("trimesh")
    mesh = CUBE, faces
    if kind != "arrays":
        mesh = tmp_path / f"cube.{kind[-3:]}"
        mesh.write_bytes(content_of(kind, faces))
    if kind == "binary ply" and faces is MIXED:
        with pytest.raises(
            ValueError, match=r"faces of several sizes in binary form.* export it as text"
        ):
            from_mesh(mesh)
        return
    sides = [
        {frozenset(pair) for pair in zip(face, [*face[1:], face[0]], strict=True)} for face in faces
    ]
    expected = [[float(one is not other and bool(one & other)) for other in sides] for one in sides]
    np.testing.assert_array_equal(dense(from_mesh(mesh)), expected)
    vertices = from_mesh(mesh, on="vertices")
    assert vertices.n_edges == len(set().union(*sides))
    assert not vertices.has_names


def test_centres_and_cotangents_of_polygons():
    """Along a strip of two squares and a pentagon; on a flat grid, those of squares."""
    corners = np.array(
        [[x, y, 0] for x in (0, 1, 3) for y in (0, 1)] + [[5, 0, 0], [6, 0.5, 0], [5, 1, 0]], float
    )
    faces = [[0, 2, 3, 1], [2, 4, 5, 3], [4, 6, 7, 8, 5]]
    centres = np.array([corners[face].mean(axis=0) for face in faces])
    lengths = np.linalg.norm(np.diff(centres, axis=0), axis=1)
    weights = dense(from_mesh((corners, faces), weights="inverse_length"))
    np.testing.assert_allclose([weights[0, 1], weights[1, 2]], lengths.mean() / lengths)
    square = CORNERS / [2, 1, 1], np.array([[0, 1, 2, 3]])
    expected = [[0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0]]
    np.testing.assert_allclose(
        dense(from_mesh(square, on="vertices", weights="cotangent")), expected, atol=1e-15
    )


def test_quadrilaterals_that_trimesh_has_split_are_told():
    trimesh = pytest.importorskip("trimesh")
    with pytest.warns(
        UserWarning, match=r"split 6 quadrilaterals: triangles k and k \+ 6 .*, for k from 0 to 5"
    ):
        assert from_mesh(trimesh.Trimesh(CUBE, SQUARES, process=False)).n_nodes == 12
    mixed = trimesh.load_mesh(io.BytesIO(content_of("off", MIXED)), file_type="off", process=False)
    with pytest.warns(UserWarning, match="split 5 quadrilaterals: .* k from 2 to 6"):
        from_mesh(mixed)
    from_mesh(trimesh.creation.box())  # warnings are errors


# -- tolerance -------------------------------------------------------------------------------------


@pytest.mark.parametrize("moved", [0.0, 1e-9, 1e-7, 1e-6])
def test_corners_of_a_triangle_soup_are_joined_though_they_differ_by_rounding(moved):
    """As an STL file lists them: the tetrahedra have three corners at each vertex."""
    rng = np.random.default_rng(0)
    soup = TETRAHEDRON[SIDES].reshape(-1, 3) + moved * rng.uniform(-1, 1, (12, 3))
    faces = np.arange(12).reshape(-1, 3)
    np.testing.assert_array_equal(dense(from_mesh((soup, faces))), 1 - np.eye(4))
    vertices = from_mesh((soup, faces), on="vertices")
    assert vertices.nodes == (0, 1, 2, 5)  # the first corner at each place
    np.testing.assert_array_equal(dense(vertices), 1 - np.eye(4))
    if moved:
        with pytest.warns(UserWarning, match="4 of the 4 faces have no edge"):
            assert from_mesh((soup, faces), tolerance=0).n_edges == 0


def test_the_tolerance_of_a_mesh_is_in_its_unit_and_joins_the_rims_of_pieces_only():
    gap = np.vstack([CORNERS, CORNERS + [2.01, 0, 0]])
    faces = np.vstack([HALVES, HALVES + 4])
    for unit in (1e-30, 1.0, 1e30):
        assert from_mesh((gap * unit, faces)).n_edges == 2
        assert from_mesh((gap * unit, faces), tolerance=0.02 * unit).n_edges == 3
    with pytest.raises(
        ValueError, match="below a quarter of the median length of the sides, which is 2 here"
    ):
        from_mesh((gap, faces), tolerance=1.0)
    with pytest.raises(ValueError, match="`tolerance` belongs to weld=True"):
        from_mesh((gap, faces), tolerance=0.01, weld=False)
    with pytest.raises(ValueError, match="`tolerance` must be at least 0"):
        from_mesh((gap, faces), tolerance=-1.0)
    # Two closed surfaces a hair apart stay two.
    apart = np.vstack([TETRAHEDRON, TETRAHEDRON + [1 + 1e-6, 0, 0]]), np.vstack([SIDES, SIDES + 4])
    assert np.unique(from_mesh(apart).components()).size == 2
    assert from_mesh(apart, on="vertices").n_nodes == 8


def test_numbers_of_vertices_that_may_be_positions_are_refused():
    """Vertex 4 of this file is at the place of vertex 0, so that vertex 5 is node 4."""
    split = (
        np.vstack([CORNERS, CORNERS[0], [[0, -1, 0]]]),
        np.array([[0, 1, 2], [0, 2, 3], [4, 5, 1]]),
    )
    graph = from_mesh(split, on="vertices")
    assert graph.nodes == (0, 1, 2, 3, 5)
    for numbers in (np.arange(6), np.arange(5), [1, 4]):
        with pytest.raises(
            ValueError, match=r"must say whether integers are names|must be positions in"
        ):
            given_nodes(graph, numbers)
    np.testing.assert_array_equal(given_nodes(graph, [5, 0]), [4, 0])  # 5 can only be a name


def test_a_ply_face_without_corners_is_damage(tmp_path):
    pytest.importorskip("trimesh")
    text = (
        "ply\nformat ascii 1.0\nelement vertex 4\n"
        "property float x\nproperty float y\nproperty float z\n"
    )
    text += "element face 4\nproperty list uchar int vertex_indices\nend_header\n"
    text += "".join(f"{' '.join(map(str, row))}\n" for row in TETRAHEDRON)
    file = tmp_path / "mesh.ply"
    file.write_text(text + "".join(f"3 {' '.join(map(str, row))}\n" for row in SIDES[:3]) + "0\n")
    with pytest.raises(ValueError, match="face 3 has 0 corners"):
        from_mesh(file)
