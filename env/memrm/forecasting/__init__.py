"""Forecasts of how often questions are answered rightly, and rankings of policies by them."""
