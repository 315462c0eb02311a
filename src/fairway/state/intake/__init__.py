"""What pods and groups mean to the state: read, counted in and out, and read again when what they rest on changes."""
