"""Where snapshots live. `base` holds the protocol; each other module one store."""
