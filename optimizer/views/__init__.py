"""What people look at: tables, plots, the report, MLflow, progress on a terminal."""
