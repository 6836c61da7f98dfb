"""Whether a policy that was evolved on one track is of use on another."""
