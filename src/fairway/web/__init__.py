"""The page and its API (`/api/v1`): what a browser and the other commands ask, over HTTP (extra `web`)."""
