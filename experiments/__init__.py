"""Published results, measured again: `make experiments`. Data is read from the folder FAIRWAY_DATA."""
