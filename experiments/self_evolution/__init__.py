"""What each part of the search is worth, and what AMemGym's self-evolution is."""
