"""What the clusters have to beat: every baseline of the paper, and those of today, one file each."""
