"""How unit tests that draw examples go about it."""

from hypothesis import settings

# Hypothesis' own profile for CI, everywhere: the examples are the same in each run, and none fails for having
# taken long on a busy machine.
settings.load_profile("ci")
