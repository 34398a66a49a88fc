"""The programs of `hightide pipeline …`: archive, replay, delays, audit. spark-submit can run each, too."""
