-- A name is looked for in all projects at once.
CREATE INDEX cluster_by_name ON cluster (name) WHERE phase <> 'deleted';
