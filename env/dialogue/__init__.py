"""The dialogue track: an assistant talks to a simulated user and is questioned on the way, after AMemGym."""
