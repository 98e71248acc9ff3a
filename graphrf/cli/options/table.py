"""The options and arguments of all commands, by the names of the parameters that receive them."""

from __future__ import annotations

from typing import NamedTuple


class Option(NamedTuple):
    """An option or argument as the help shows it.

    Attributes
    ----------
    panel : title under which the help lists it; "Arguments" for arguments
    help : text of the help
    metavar : name of the value; words with | between them are also completed by the shell
    flags : flags with spaces between them, where they do not follow from the parameter's name
    python : names of the same argument in the library, where they differ from the parameter's name
    words : values that the shell completes, where `metavar` does not list them
    """

    panel: str
    help: str
    metavar: str | None = None
    flags: str = ""
    python: str = ""
    words: tuple[str, ...] = ()


NODE_TITLES = ("node", "nodes", "name", "id", "vertex", "face")
TARGET_TITLES = ("target", "y", "value", "label", "class")
TIME_TITLES = ("time", "times", "date", "datetime", "timestamp", "hour", "hours")
KERNEL_NAMES = (
    *("diffusion", "matern", "regularized_laplacian", "p_step_random_walk", "inverse_cosine"),
    *("bym2", "car", "icar", "leroux"),
)
LIKELIHOOD_NAMES = (
    *(
        "gaussian",
        "poisson",
        "negative_binomial",
        "binomial",
        "bernoulli",
        "student_t",
        "gamma",
        "log_normal",
    ),
    *("weibull", "beta", "zero_inflated_poisson", "zero_inflated_negative_binomial"),
)
_GRAPH = (
    "An edge list, GML, GraphML, MatrixMarket, npz or mesh file, a graph's folder, or the name of "
    "a data set (`graphrf datasets`). A file of that name wins; - is an edge list from standard "
    "input."
)
_GRAPH_NAMES = "source folder adjacency edge_index src dst"
_TIME = (
    "The column of times, in hours or dates. The table has a column for each node, or a line for "
    "each reading."
)

# An entry "command.parameter" holds for that command alone.
OPTIONS = {
    "graph": Option("Arguments", _GRAPH, "GRAPH", python=_GRAPH_NAMES),
    "observations": Option(
        "Arguments",
        "A csv file, or - for standard input: a column of nodes and one of values, a line per "
        "observation.",
        "OBSERVATIONS",
        python="y Y",
    ),
    "classify.observations": Option(
        "Arguments",
        "A csv file, or - for standard input: a column of nodes and one of labels.",
        "OBSERVATIONS",
        python="labels",
    ),
    "fill.observations": Option(
        "Arguments",
        "A csv file of times and readings, with empty cells as gaps: a column for each node, or a "
        "line for each reading.",
        "OBSERVATIONS",
        python="y Y",
    ),
    "model": Option("Arguments", "A file written by `graphrf fit`.", "MODEL", python="path"),
    "name": Option("Arguments", "Show the card of this data set.", "[NAME]"),
    # output
    "output": Option(
        "Output",
        "A .csv, .npz or .json file, overwritten if it exists (missing folders are created); - for "
        "csv on standard output.",
        "FILE",
        "-o --output",
        "path",
    ),
    "features.output": Option(
        "Output",
        "An .npz file, or a folder (a name without an extension); an interrupted run into a folder "
        "resumes.",
        "PLACE",
        "-o --output",
        "path",
    ),
    "fit.output": Option(
        "Output",
        "An .npz file, overwritten if it exists (missing folders are created); it contains the "
        "graph and the observations.",
        "MODEL",
        "-o --output",
        "path",
    ),
    "fill.output": Option(
        "Output",
        "A .csv file of the same form, overwritten if it exists. Default: standard output.",
        "FILE",
        "-o --output",
        "path",
    ),
    "std": Option(
        "Output",
        "Also write the standard deviations to this .csv file, in the same form; 0 where there is "
        "a reading.",
        "FILE",
    ),
    "json": Option("Output", "Print one JSON object: result and metadata.", flags="--json"),
    "top": Option(
        "Output",
        "Number of best nodes to print, or to find with local. Default: 10 without an output file.",
        python="k",
    ),
    # running
    "seed": Option("Running", "Random seed. Default: random and reported."),
    "demo.seed": Option("Running", "Random seed."),
    "threads": Option("Running", "Number of threads. Default: all cores.", python="n_threads"),
    "quiet": Option(
        "Running",
        "Print no progress bars and no messages but warnings and errors.",
        flags="--quiet -q",
    ),
    "memory_limit": Option("Running", "Limit such as 4GiB. Default: the free memory.", "SIZE"),
    # reading the graph
    "directed": Option(
        "Reading the graph",
        "Keep or ignore the directions of edges.",
        flags="--directed/--undirected",
    ),
    "weight": Option(
        "Reading the graph",
        "Column or attribute with the weights of edges. Default: unweighted.",
        "COLUMN",
    ),
    "unweighted": Option(
        "Reading the graph", "Ignore weights, without a warning.", flags="--unweighted"
    ),
    "weight_is": Option(
        "Reading the graph", "Whether a large weight means near or far.", "similarity|distance"
    ),
    "columns": Option(
        "Reading the graph",
        "Columns of the two ends of each edge, by title or position from 0.",
        "A,B",
    ),
    "header": Option(
        "Reading the graph",
        "Whether the first line contains titles. Default: detected.",
        flags="--header/--no-header",
    ),
    "mesh_on": Option(
        "Reading the graph",
        "Which elements of a mesh are nodes. Default: faces.",
        "faces|vertices",
        python="on",
    ),
    "mesh_weights": Option(
        "Reading the graph",
        "Edge weights of a mesh. Default: unit.",
        "unit|inverse_length|cotangent",
        python="weights",
    ),
    # the kernel
    "kernel": Option("Kernel", f"{', '.join(KERNEL_NAMES)}.", "NAME", words=KERNEL_NAMES),
    "lengthscale": Option("Kernel", "Approximate number of steps over which nodes are correlated."),
    "nu": Option("Kernel", "Smoothness of matern."),
    "power": Option("Kernel", "Exponent of regularized_laplacian."),
    "alpha": Option("Kernel", "Constant of p_step_random_walk, at least 2."),
    "steps": Option("Kernel", "Number of steps of p_step_random_walk."),
    "mixing": Option(
        "Kernel", "Share of the variance that the graph explains, of bym2 and leroux."
    ),
    "dependence": Option("Kernel", "Dependence rho of car on the neighbours."),
    "laplacian": Option(
        "Kernel",
        "Laplacian of the kernel. Default: normalized; of leroux combinatorial.",
        "normalized|combinatorial",
    ),
    # the sampler
    "sampler": Option(
        "Sampler",
        "Unbiased powers (compressed, the default), walks, biased powers (cut) or exact powers.",
        "compressed|walks|cut|exact",
    ),
    "budget": Option(
        "Sampler", "Entries per row of each power; required for cut. Default: 32 for compressed."
    ),
    "max_length": Option(
        "Sampler",
        "Highest power, or length of truncated walks. Default for exact, cut and truncated: enough "
        "for the series of `--kernel`.",
    ),
    "walks": Option("Sampler", "Walks per node. Default: 32.", python="n_walks"),
    "lengths": Option(
        "Sampler",
        "Lengths of walks: stratified (the default), iid, antithetic, sigma, truncated, auto (for "
        "`--kernel`), or a file of `Coupling.save`. For compressed: auto.",
        "LENGTHS",
    ),
    "p_halt": Option("Sampler", "Probability that a walk ends before each step. Default: 0.1."),
    "directions": Option(
        "Sampler", "Directions of walks. Default: stratified.", "stratified|independent"
    ),
    "error": Option(
        "Sampler",
        "Instead of a sampler: target relative error for `--kernel`, for which a sampler is "
        "chosen.",
    ),
    # nodes, observations and times
    "nodes": Option("Nodes", "A file of nodes, or A,B,C. Default: all nodes.", "NODES"),
    "node_column": Option(
        "Observations",
        f"Title, or position from 0. Default: {', '.join(NODE_TITLES)}, or the first of two.",
        "COLUMN",
    ),
    "target_column": Option(
        "Observations",
        f"Title, or position from 0. Default: {', '.join(TARGET_TITLES)}, or the other of two.",
        "COLUMN",
    ),
    "covariates": Option(
        "Observations", "Columns of covariates, whose coefficients are fitted.", "A,B", python="x"
    ),
    "predict.covariates": Option(
        "Nodes",
        "A file of nodes with the covariates of the fit; only these nodes are predicted.",
        "FILE",
        python="x",
    ),
    "exposure": Option(
        "Observations", "Column of exposures of counts, such as expected cases.", "COLUMN"
    ),
    "trials": Option("Observations", "Column of numbers of trials, for binomial.", "COLUMN"),
    "time": Option("Observations", f"Fit through time. {_TIME}", "COLUMN", python="times"),
    "fill.time": Option(
        "Observations",
        f"{_TIME} Default: the column with this title, or the first.",
        "COLUMN",
        python="times",
    ),
    "times": Option(
        "Nodes",
        "Times for a model through time: a file, or A,B,C. Default: the times in its data.",
        "TIMES",
    ),
    "observation": Option(
        "Nodes",
        "Give standard deviations of a new observation, which include noise.",
        flags="--observation",
    ),
    "above": Option("Nodes", "Also give the probability that the value exceeds this threshold."),
    "samples": Option(
        "Nodes", "Number of functions to draw from the posterior, in addition.", python="n_samples"
    ),
    "predict.seed": Option("Running", "Random seed of the draws. Default: random and reported."),
    # training
    "likelihood": Option(
        "Training",
        f"Distribution of observations: {', '.join(LIKELIHOOD_NAMES)}.",
        "NAME",
        words=LIKELIHOOD_NAMES,
    ),
    "method": Option(
        "Training",
        "Exact products with the kernel, a factor of its sparse inverse, or sampled features; auto "
        "uses an exact method if it is affordable.",
        "auto|series|precision|features",
    ),
    "noise": Option("Training", "Fix the noise variance."),
    "output_scale": Option("Training", "Fix the variance of the signal."),
    "optimize": Option(
        "Training",
        "Train the lengthscale, or keep the given one.",
        flags="--optimize/--no-optimize",
    ),
    "max_train": Option(
        "Training",
        "Maximum number of nodes in a block of training; through time, approximate number of "
        "readings.",
    ),
    "predictive": Option(
        "Training",
        "Probabilities at the posterior mode, or integrated, for noisy labels.",
        "mode|integrated",
    ),
    # PageRank
    "pagerank.method": Option(
        "PageRank",
        "Exact power iteration; estimates from walks, with standard errors; or scores local to "
        "some nodes.",
        "power|walks|local",
    ),
    "pagerank.p_halt": Option(
        "PageRank", "Probability of a jump before each step; 1 - alpha in networkx."
    ),
    "pagerank.alpha": Option("", ""),
    "sources": Option(
        "PageRank",
        "Where walks start: a file of nodes, or A,B,C. One ranking for all, or one for each with "
        "local.",
        "NODES",
        python="personalization",
    ),
    "tol": Option("PageRank", "Target L1 error. Default: 1e-12 for power, none for walks."),
    "max_iter": Option("PageRank", "Maximum number of power iterations."),
    "pagerank.walks": Option("PageRank", "Walks per node. Default: 16.", python="n_walks"),
    "batches": Option(
        "PageRank",
        "Independent batches of walks; 2 or more give standard errors. Default: 4 for at least 16 "
        "walks; not used with `--tol`.",
        python="n_batches",
    ),
    # the demo
    "out": Option("Output", "Folder for report.html. Default: out."),
}
