"""Robust low-rank completion (Eq. 2): the problem, two solvers, and the certificate."""
