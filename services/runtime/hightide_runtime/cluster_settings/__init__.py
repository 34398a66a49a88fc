"""Settings of the whole cluster that one znode holds, as operators read and change them: ACLs and quotas."""
