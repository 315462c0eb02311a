"""What a device is: typed values with units, attributes, pools and counters, and where they come from."""
