"""What multi-task and few-shot learning share: groups, folds, blends, verdicts, calibration, model files."""
