"""`graphrf demo`: a report with pictures of what the library does."""
