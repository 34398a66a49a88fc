"""The processes of a local cluster: started, watched, paused, cut off from each other, ended."""
