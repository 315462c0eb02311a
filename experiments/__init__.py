"""Published results, reproduced: `make experiments`. Data are read from the folder FAIRWAY_DATA."""
