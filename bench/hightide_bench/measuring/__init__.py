"""The measurements, and the clusters that they measure."""
