"""How a search fares on a bad night: faults of every kind, outages, kills."""
