"""Multi-task learning on clusters of tasks."""
