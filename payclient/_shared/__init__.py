"""Internal: what every part of payclient may use."""
