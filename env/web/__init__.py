"""The web track: an agent follows a plan in a browser, and what it types and clicks memory has to give back."""
