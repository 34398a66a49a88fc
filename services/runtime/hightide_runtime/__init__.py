"""What every Hightide service needs: serving, errors, ZooKeeper, settings, telemetry."""
