"""Research tasks: chains of questions whose answers stand in documents that come back from searches."""
