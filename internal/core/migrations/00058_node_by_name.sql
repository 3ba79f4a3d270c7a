-- What a cluster has had, and whether a name was in it before, is asked for at each start of a node.
CREATE INDEX node_by_name ON node (cluster_id, name);
