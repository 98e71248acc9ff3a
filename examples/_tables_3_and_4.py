"""Tables 3 and 4 of Reid et al. 2024, "Variance-reducing couplings for random features".

A line: frequencies, metric, features, coupling; then value and error for concrete, abalone, cpu,
power, airfoil, boston. The coupling "both" is "+ PNC + antithetic". Errors are two standard errors
over the splits. The ratios to independent frequencies, which the tables hold too, follow from the
errors of prediction. The divergences of Table 4 are set in merged cells and are read as well as
they can be; Halton on abalone (0.503 +- 0.948) stands as printed.
"""

from __future__ import annotations

_LINES = """\
d kl fourier iid|1.491 0.106|0.013 0.001|1.570 0.417|0.150 0.007|0.357 0.025|2.128 0.197
d kl fourier Halton|1.548 0.104|0.014 0.001|1.596 0.419|0.138 0.006|0.356 0.024|2.263 0.204
d kl fourier orthogonal|1.166 0.113|0.004 0.000|1.635 0.423|0.029 0.002|0.235 0.017|1.990 0.191
d kl fourier + PNC|1.168 0.113|0.004 0.000|1.589 0.416|0.029 0.002|0.235 0.017|1.985 0.190
d kl laplace iid|0.552 0.064|0.028 0.003|5.925 1.961|0.199 0.011|0.230 0.024|0.759 0.068
d kl laplace Halton|0.574 0.064|0.024 0.003|5.811 1.897|0.146 0.009|0.213 0.022|0.834 0.074
d kl laplace orthogonal|0.486 0.059|0.014 0.002|5.494 1.774|0.059 0.005|0.165 0.018|0.679 0.058
d kl laplace both|0.482 0.058|0.014 0.002|5.468 1.780|0.050 0.006|0.165 0.018|0.673 0.058
d rmse fourier iid|11.333 0.304|2.587 0.112|64.259 11.506|4.840 0.076|3.468 0.086|4.976 0.332
d rmse fourier Halton|11.479 0.305|2.589 0.112|64.562 11.505|4.799 0.077|3.464 0.086|5.081 0.336
d rmse fourier orthogonal|10.398 0.292|2.572 0.114|65.477 11.721|4.430 0.093|3.225 0.088|4.847 0.331
d rmse fourier + PNC|10.398 0.291|2.572 0.115|66.404 11.594|4.429 0.093|3.225 0.088|4.852 0.330
d rmse laplace iid|10.098 0.284|2.587 0.112|85.772 16.446|5.025 0.083|3.243 0.094|4.224 0.310
d rmse laplace Halton|10.173 0.285|2.580 0.113|86.060 16.333|4.845 0.083|3.209 0.093|4.303 0.315
d rmse laplace orthogonal|9.882 0.272|2.562 0.115|86.042 15.997|4.518 0.091|3.108 0.092|4.136 0.301
d rmse laplace both|9.908 0.270|2.563 0.115|86.258 15.998|4.569 0.090|3.108 0.092|4.150 0.301
d nll fourier iid|4.609 0.106|2.388 0.042|7.077 0.926|3.037 0.020|2.764 0.043|4.808 0.437
d nll fourier Halton|4.666 0.108|2.389 0.042|7.105 0.924|3.025 0.020|2.762 0.043|4.942 0.449
d nll fourier orthogonal|4.301 0.095|2.381 0.042|7.381 1.122|2.913 0.022|2.640 0.041|4.684 0.432
d nll fourier + PNC|4.304 0.095|2.381 0.042|7.543 1.086|2.913 0.022|2.639 0.041|4.693 0.433
d nll laplace iid|3.930 0.059|2.389 0.042|12.981 3.953|3.076 0.023|2.644 0.041|3.384 0.235
d nll laplace Halton|3.948 0.060|2.387 0.042|12.929 3.927|3.024 0.022|2.628 0.040|3.453 0.245
d nll laplace orthogonal|3.880 0.056|2.379 0.042|12.722 3.867|2.935 0.022|2.581 0.038|3.312 0.223
d nll laplace both|3.885 0.055|2.380 0.042|12.729 3.864|2.948 0.022|2.582 0.038|3.319 0.223
8d kernel fourier iid|0.527 0.029|0.088 0.012|0.264 0.035|0.137 0.014|0.301 0.018|0.107 0.009
8d kernel fourier Halton|0.550 0.031|0.089 0.013|0.262 0.036|0.123 0.014|0.281 0.019|0.126 0.011
8d kernel fourier orthogonal|0.340 0.014|0.061 0.007|0.160 0.033|0.094 0.010|0.181 0.012|0.074 0.005
8d kernel fourier + PNC|0.304 0.013|0.055 0.006|0.141 0.030|0.079 0.007|0.154 0.011|0.071 0.005
8d kernel laplace iid|1.312 0.118|0.382 0.159|0.645 0.212|0.376 0.044|0.629 0.082|0.392 0.057
8d kernel laplace Halton|1.336 0.380|0.297 0.047|0.453 0.075|0.249 0.030|0.539 0.084|0.357 0.031
8d kernel laplace orthogonal|1.096 0.103|0.285 0.071|0.433 0.121|0.159 0.015|0.466 0.062|0.433 0.166
8d kernel laplace both|1.123 0.148|0.227 0.048|0.391 0.092|0.113 0.012|0.461 0.087|0.338 0.052
8d kl fourier iid|0.122 0.010|0.003 0.001|0.046 0.013|0.003 0.001|0.017 0.004|0.139 0.030
8d kl fourier Halton|0.122 0.010|0.503 0.948|0.045 0.012|0.003 0.000|0.017 0.004|0.150 0.031
8d kl fourier orthogonal|0.117 0.009|0.002 0.001|0.042 0.011|0.003 0.000|0.016 0.004|0.133 0.029
8d kl fourier + PNC|0.115 0.008|0.002 0.001|0.041 0.011|0.003 0.000|0.015 0.004|0.135 0.029
8d kl laplace iid|0.234 0.053|0.067 0.050|1.827 1.802|0.003 0.001|0.051 0.023|0.742 0.319
8d kl laplace Halton|0.231 0.048|0.066 0.050|1.992 2.062|0.003 0.000|0.047 0.023|0.754 0.321
8d kl laplace orthogonal|0.227 0.049|0.066 0.050|1.889 1.838|0.003 0.001|0.048 0.023|0.713 0.319
8d kl laplace both|0.232 0.053|0.067 0.052|1.846 1.776|0.003 0.001|0.051 0.024|0.713 0.315
8d rmse fourier iid|8.016 0.458|2.595 0.189|56.066 24.574|4.321 0.221|2.689 0.146|3.954 0.689
8d rmse fourier Halton|7.996 0.429|2.597 0.190|55.601 24.064|4.326 0.221|2.687 0.150|3.938 0.683
8d rmse fourier orthogonal|7.987 0.449|2.597 0.190|56.312 24.840|4.321 0.223|2.686 0.150|3.948 0.690
8d rmse fourier + PNC|8.026 0.449|2.597 0.189|56.506 24.955|4.323 0.221|2.682 0.150|3.928 0.677
8d rmse laplace iid|8.244 0.410|2.710 0.218|81.045 39.468|4.319 0.221|2.773 0.170|4.339 0.862
8d rmse laplace Halton|8.175 0.410|2.713 0.219|82.627 39.211|4.320 0.222|2.763 0.168|4.356 0.871
8d rmse laplace orthogonal|8.183 0.411|2.710 0.224|83.571 41.127|4.320 0.220|2.761 0.166|4.319 0.860
8d rmse laplace both|8.212 0.428|2.715 0.225|82.838 39.877|4.320 0.219|2.770 0.169|4.305 0.857
8d nll fourier iid|3.467 0.085|2.375 0.073|5.021 0.202|2.888 0.057|2.407 0.048|2.793 0.258
8d nll fourier Halton|3.471 0.084|2.376 0.073|5.021 0.205|2.888 0.057|2.408 0.048|2.797 0.262
8d nll fourier orthogonal|3.459 0.088|2.375 0.073|5.023 0.204|2.888 0.057|2.406 0.048|2.787 0.258
8d nll fourier + PNC|3.462 0.088|2.375 0.073|5.018 0.202|2.888 0.057|2.407 0.048|2.784 0.262
8d nll laplace iid|3.546 0.113|2.438 0.104|9.694 7.105|2.888 0.057|2.442 0.060|3.693 0.978
8d nll laplace Halton|3.542 0.111|2.437 0.104|9.722 7.220|2.888 0.057|2.438 0.058|3.708 0.989
8d nll laplace orthogonal|3.544 0.112|2.436 0.102|9.836 7.410|2.887 0.057|2.440 0.059|3.637 0.947
8d nll laplace both|3.543 0.114|2.435 0.102|9.686 7.279|2.888 0.057|2.437 0.058|3.648 0.947
"""


def read() -> dict[tuple[str, str, str, str], list[tuple[float, float]]]:
    """By (frequencies, metric, features, coupling): values and errors of the six sets."""
    table = {}
    for line in _LINES.splitlines():
        key, *cells = line.split("|")
        size, metric, kind, row = key.replace("both", "+ PNC + antithetic").split(maxsplit=3)
        pairs = (tuple(map(float, cell.split())) for cell in cells)
        table[size, metric, kind, row.strip()] = [(value, error / 2) for value, error in pairs]
    return table
