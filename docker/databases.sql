-- MLflow's tables must not stand beside a study's.
CREATE DATABASE mlflow;
