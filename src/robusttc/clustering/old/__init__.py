"""From transfer scores to clusters of tasks: filtering, completion, spectral clustering, choice of K."""
