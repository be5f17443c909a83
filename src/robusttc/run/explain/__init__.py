"""Why a task of a run is where it is."""
